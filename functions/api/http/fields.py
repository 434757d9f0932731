"""The field types that API requests and answers share, and the base classes of the pydantic models."""

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeVar

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator
from pydantic.json_schema import SkipJsonSchema

from functions.model.address_rules import check_country
from functions.model.entities import complete_path
from functions.model.languages import LANGUAGES

if TYPE_CHECKING:
    from functions.shop.idempotency import IdempotentResult

T = TypeVar("T")
NO_CONTROL_CHARACTERS = r"^[^\x00-\x1f\x7f-\x9f]*$"
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
ID_CHARACTERS = "letters (A-Z, a-z), digits, dots, hyphens and underscores, and begin with a letter or digit"

VIRAMA = 9
"""The combining class of a sign that joins two consonants of an Indic script, such as U+094D."""
EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's Default_Ignorable_Code_Point: https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt"""
# The group `needed` matches invisible characters where a text needs them, such as joiners in emoji. The last line
# matches all other invisible characters, line separators (U+2028, U+2029), and annotations (U+FFF9 to U+FFFB).
INVISIBLE = re.compile(
    "(?P<needed>"
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
    f"|(?<=[{EMOJI}\ufe0f])\u200d(?=[{EMOJI}])"
    "|(?<=[\u1807\u1820-\u18aa])[\u180b-\u180f]"
    f"|(?<=[^\\s{IGNORABLE}])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
    f")|[{IGNORABLE}\u2028\u2029\ufff9-\ufffb]"
)


def check_visible(text: str) -> str:
    """Return the text if all its characters are visible and none changes the direction of text. Else raise ValueError.

    Without this check, a name could look empty, look like another name, or reorder the text beside it. The function
    rejects the characters that RFC 8264, 9.13 excludes from texts of people (Unicode's Default_Ignorable_Code_Point:
    direction controls, zero width characters, fillers), line separators, and interlinear annotations. It accepts some
    of these characters in places where a text looks wrong without them:

    - in emoji (UTS #51, https://www.unicode.org/reports/tr51/): joiners, variation selectors, and the tags of a flag;
    - variation selectors after any character, as in Japanese names, and Mongolian selectors after a Mongolian letter;
    - the joiners U+200C and U+200D beside a virama, and U+200C between two letters of an Arabic script, as in Persian:
      the rules CONTEXTJ of RFC 5892, A.1 and A.2, but also before a virama, as in Bengali.
    """
    for found in INVISIBLE.finditer(text):
        if not found["needed"] and not _is_joiner(text, found.start()):
            where = f"character {found.start() + 1} (U+{ord(found[0]):04X})"
            raise ValueError(f"{where} is invisible or changes the direction of the text: remove it")
    return text


def _is_joiner(text: str, place: int) -> bool:
    """Return whether the character at this place is a joiner that the script of its neighbours needs."""
    char, before, after = text[place], text[:place], text[place + 1 : place + 2]
    if char in "\u200c\u200d" and VIRAMA in map(unicodedata.combining, before[-1:] + after):
        return True
    letter = next((one for one in reversed(before) if not unicodedata.combining(one)), "")
    return char == "\u200c" and [unicodedata.bidirectional(one) for one in letter + after] == ["AL", "AL"]


PATTERN_RULES: dict[str, str] = {}
"""The rule in words for each regular expression of a field. An error response shows the words, not the expression."""


def text_matching(pattern: str, rule: str, **limits: Any) -> StringConstraints:
    """Return pydantic constraints for a text that matches a pattern. `rule`: the pattern in words, for people."""
    PATTERN_RULES[pattern] = rule
    return StringConstraints(pattern=pattern, **limits)


def one_line_text(max_length: int, min_length: int = 1) -> StringConstraints:
    """Return pydantic constraints for a text of one line. Pydantic also removes spaces at both ends of the text."""
    return text_matching(
        NO_CONTROL_CHARACTERS,
        "must be one line without control characters",
        strip_whitespace=True,
        min_length=min_length,
        max_length=max_length,
    )


def multi_line_text(max_length: int, min_length: int = 0) -> StringConstraints:
    """Return pydantic constraints for a text that may have several lines, without spaces at its ends."""
    return text_matching(
        r"^[^\x00-\x09\x0b-\x1f\x7f-\x9f]*$",
        "must not contain control characters, except line breaks",
        strip_whitespace=True,
        min_length=min_length,
        max_length=max_length,
    )


Id = Annotated[str, text_matching(ID_PATTERN, f"must be 1 to 64 {ID_CHARACTERS}, such as mug-1")]
Name = Annotated[str, one_line_text(200)]
DiscountCode = Annotated[
    str, text_matching(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$", f"must be 1 to 40 {ID_CHARACTERS}, such as SPRING-10")
]
# The path of a category is part of a sort key. The maximum length keeps the key below DynamoDB's limit of 1,024 bytes.
CategoryPath = Annotated[
    str,
    text_matching(
        r"^/([a-z0-9-]{1,40}/)*([a-z0-9-]{1,40})?$",
        "must start with a slash, and have a slash between names of 1 to 40 lower-case letters (a-z), digits and "
        "hyphens, such as /kitchen/mugs/",
        max_length=1000,
    ),
    AfterValidator(complete_path),
]
CatalogId = Annotated[
    str, text_matching(r"^[a-z0-9-]{1,40}$", "must be 1 to 40 lower-case letters (a-z), digits and hyphens")
]
Quantity = Annotated[int, Field(ge=1, le=10_000)]
Price = Annotated[int, Field(ge=1, le=10**9, description="In minor units (cents).")]
TaxClass = Annotated[str, text_matching(r"^[a-z0-9_-]{1,32}$", "must be 1 to 32 of a-z, 0-9, - and _, such as reduced")]
MethodId = Annotated[
    str, text_matching(r"^[a-z0-9_-]{1,32}$", "must be 1 to 32 of a-z, 0-9, - and _, such as standard")
]
Country = Annotated[
    str,
    AfterValidator(check_country),
    Field(min_length=2, max_length=2, json_schema_extra={"pattern": "^[A-Z]{2}$", "examples": ["AT"]}),
]
Email = Annotated[
    str,
    text_matching(
        r"^[^\s@\x00-\x1f\x7f]+@[^\s@\x00-\x1f\x7f]+$",
        "must be an e-mail address, such as ann@example.com",
        max_length=254,
    ),
]
MailboxEmail = Annotated[
    str,
    text_matching(
        r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
        r"@[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+$",
        "must be one e-mail address of letters without accents, such as ann@example.com",
        max_length=254,
    ),
]
"""An address that nobody has verified. It must have one form only, so that limits by address cannot be evaded."""
NameWithoutLink = Annotated[
    str,
    text_matching(r"^[^/:@\x00-\x1f\x7f]+$", "must be a name without a link", strip_whitespace=True, max_length=200),
]
"""A name that strangers send to an address. A mail with it must not lead anywhere."""
Language = Annotated[
    str, text_matching(f"^({'|'.join(LANGUAGES)})$", f"must be a language of the shop: {' or '.join(LANGUAGES)}")
]
LinkLanguage = Annotated[
    Annotated[str, StringConstraints(max_length=35)] | None,
    Query(description="The language of the page. A language that the shop does not have any more is ignored."),
]
# This text becomes part of a DynamoDB key. So it is one line and does not contain "#", the separator of key parts.
KeySafeText = Annotated[
    str,
    text_matching(
        r"^[^#\x00-\x1f\x7f-\x9f]{1,64}$", "must be one line of 1 to 64 characters without #", strip_whitespace=True
    ),
]
StaffReason = Annotated[
    str,
    text_matching(r"^[^\x00-\x1f\x7f-\x9f]{1,200}$", "must be one line of 1 to 200 characters", strip_whitespace=True),
    Field(description="Without personal data, such as a name or an account number."),
]
"""Why staff do something. The audit trail keeps it."""
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="A unique text of your choice, up to 255 visible characters. If you repeat a request with its "
        "key, you get the first response again, and nothing is done twice. The shop remembers the key for ever.",
    ),
    text_matching(r"^[!-~]{1,255}$", "must be 1 to 255 visible ASCII characters without spaces"),
]


def examples(*bodies: dict[str, Any]) -> ConfigDict:
    """Return the `model_config` of a body with these examples in the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [*bodies]})


class RequestModel(BaseModel):
    """The base class of request bodies. It rejects unknown fields, wrong types and invisible characters."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True)

    @field_validator("*")
    @classmethod
    def _check_visible(cls, value: T) -> T:
        if isinstance(value, str):
            check_visible(value)
        return value


OMITTED: Any = Field(default_factory=lambda: None, exclude_if=lambda value: value is None)
"""The default of a field that an answer omits if the field has no value.

Declare the field as `int | SkipJsonSchema[None]`. Then the OpenAPI document does not allow null, which is never sent.
"""


class ResponseModel(BaseModel):
    """The base class of answers. An answer shows only the fields that its class declares.

    `always_sent`: if it is not empty, a client may select fields with the parameter `fields`
    (functions/api/http/field_selection.py). The answer then has the selected fields and the fields of `always_sent`.
    """

    always_sent: ClassVar[tuple[str, ...]] = ()
    model_config = ConfigDict(from_attributes=True, frozen=True, hide_input_in_errors=True, defer_build=True)

    @classmethod
    def of(cls, item: Any) -> Self:
        """Return the answer for an item. Each field of the answer gets the item's attribute with the same name."""
        return cls.model_validate(item)

    @classmethod
    def combine(cls, item: Any, **values: Any) -> Self:
        """Return the answer for an item, as `of` does, but with these values of other fields."""
        shared = (name for name in cls.model_fields if name not in values and hasattr(item, name))
        return cls.model_validate({name: getattr(item, name) for name in shared} | values)


def command_response(outcome: "IdempotentResult", model: type[ResponseModel]) -> Response[Any]:
    """Return the HTTP response of a command with an idempotency key: 201, or 200 for a repeated request."""
    status, headers = (200, {"Idempotent-Replayed": "true"}) if outcome.replayed else (201, {})
    return Response(status, "application/json", model.model_validate(outcome.result), headers=headers)


class Listed(ResponseModel, Generic[T]):
    """A page of a list. Send `cursor` to get the next page. `cursor` is null on the last page.

    A page can have fewer items than requested even if it is not the last page.

    Do not rename this class: its name is part of schema names in the OpenAPI document, and generated clients use them.
    """

    items: Sequence[T]
    cursor: str | None = None

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Return the name of this schema in the OpenAPI document, such as PageOfSale."""
        return f"PageOf{params[0].__name__}"


class Filtered(Listed[T], Generic[T]):
    """A page of a list that may be filtered after the read.

    `read`: how many items were read. `discarded`: how many of them the filter left out. Both are omitted without such a
    filter. A page can be empty although more pages follow.
    """

    read: int | SkipJsonSchema[None] = OMITTED
    discarded: int | SkipJsonSchema[None] = OMITTED

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Return the name of this schema in the OpenAPI document, such as FilteredPageOfOrderInList."""
        return f"FilteredPageOf{params[0].__name__}"

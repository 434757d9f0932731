"""Entered texts have no invisible characters, and no characters that change the direction of the text around them."""

import unicodedata

import pytest
from pydantic import ValidationError

from functions.api.http.fields import Name, RequestModel
from proof.support.http_client import ApiHarness, change_cognito_email, create_cognito_user, invoke_api
from tests.api.hostile.request import WEBHOOK, valid_request
from tests.api.test_fields import FIELDS

FREE_TEXTS = [
    field for field in FIELDS if field.place == "body" and field.accepts("a\u202eb") and field.route != WEBHOOK
]


class Named(RequestModel):
    """A request with a name."""

    name: Name


def test_every_text_of_a_body_is_rejected_with_its_field_if_it_contains_a_direction_control(
    api: ApiHarness, world: dict[str, str]
) -> None:
    names = {field.name for field in FREE_TEXTS}
    assert {"name", "address.name", "address.street", "text", "carrier", "reason"} <= names
    for field in FREE_TEXTS:
        broken = field.break_in(valid_request(field.route, world, api), world, "a\u202eb")
        assert invoke_api(broken.event(api)).field_errors.keys() == {field.name}, str(field)


def test_a_verified_address_with_a_direction_control_makes_no_customer(bare: ApiHarness) -> None:
    carol = create_cognito_user("carol@example.com", verified=True)
    change_cognito_email(carol, "carol\u202e@example.com", verified=True)
    refused = bare.call("POST", "/customers", carol, {"name": "Carol"})
    assert refused.field_errors.keys() == {"email"}
    assert bare.table_images() == []


HIDDEN = [
    *"\u00ad\u034f\u061c\u115f\u17b4\u180e\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\u206f\u3164",
    *"\ufeff\uffa0\ufff9\U0001d173\U000e0001",
]


@pytest.mark.parametrize("text", [f"Ann{char}Ash" for char in HIDDEN], ids=ascii)
def test_an_invisible_character_is_rejected(text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Named(name=text)
    (error,) = caught.value.errors()
    assert error["loc"] == ("name",)
    assert "character 4" in error["msg"]
    assert f"U+{ord(text[3]):04X}" in error["msg"]


@pytest.mark.parametrize(
    "text",
    [
        "\u200d",
        "\ufe0f",
        "a\u200db",
        "a\u200cb",
        "\u05d0\u200c\u05d1",  # Hebrew letters do not join
        "\u0645\u06cc\u200c",  # Persian: no letter follows the zero width non-joiner
        "\U0001f469\u200d",
        "\U0001f469\u200da",
        "\U0001f3f4\U000e0067\U000e0062",  # a flag without its end
        "A\U000e0067\U000e0062\U000e0065\U000e007f",
        "a\u0301\u200d\u0301",
        " \ufe0f",
    ],
    ids=ascii,
)
def test_a_joiner_is_rejected_where_it_joins_nothing(text: str) -> None:
    with pytest.raises(ValidationError):
        Named(name=text)


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a zero width non-joiner
        "\u0634\u0631\u06cc\u0651\u200c\u0632\u0627\u062f\u0647",  # Persian, a vowel mark before the non-joiner
        "\u0dc1\u0dca\u200d\u0dbb\u0dd3",  # Sinhala: Sri, with a zero width joiner after a virama
        "\u0915\u094d\u200c\u0937",  # Devanagari, with a zero width non-joiner after a virama
        "\u09b0\u200d\u09cd\u09af\u09be\u09ac",  # Bengali, with a zero width joiner before a virama
        "\u0d05\u0d35\u0d28\u0d4d\u200d",  # Malayalam, with a zero width joiner at the end
        "\u845b\U000e0100\u57ce",  # Japanese, with an ideographic variation
        "\u1820\u180b\u1828\u180e\u1820",  # Mongolian, with a variation and a vowel separator
        "\u05d3\u05d5\u05d3",
        "\U0001f469\u200d\u2764\ufe0f\u200d\U0001f468",  # a couple with heart
        "\U0001f469\U0001f3fd\u200d\U0001f52c",  # a scientist with a skin tone
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # the flag of Scotland
        "1\ufe0f\u20e3",  # a keycap
        "\u0600\u0661",  # an Arabic number sign, which is a format character but visible
    ],
    ids=ascii,
)
def test_a_joiner_that_a_script_or_an_emoji_needs_is_accepted(text: str) -> None:
    assert any(unicodedata.category(char) in ("Cf", "Mn", "Lo") for char in text)
    assert Named(name=text).name == text

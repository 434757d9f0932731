"""The settings of a deployment: all that differs from one stage or shop to another, typed and checked.

`-c stage=dev` (the default) or `-c stage=prod` chooses, and `-c NAME=VALUE` sets any single one of them; a list is
separated by commas. What makes no sense is refused at synth, with a sentence that names it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from functions.model.money import costs

if TYPE_CHECKING:
    from aws_cdk import RemovalPolicy

LOG_RETENTION_DAYS = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""What CloudWatch Logs allows (API reference, PutRetentionPolicy)."""


ADDRESS = r"[\w.+-]+@[\w-]+(\.[\w-]+)+"


class BadSetting(ValueError):
    """A setting that makes no sense; the text is a sentence for whoever set it."""


def _number(default: int, lowest: int, highest: int) -> Any:
    return field(default=default, metadata={"lowest": lowest, "highest": highest})


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One deployment. `protect`: its data stays when the stack goes, and cannot be deleted by mistake.

    `sender`: the address mails come from; it or its domain is an identity that SES has verified.
    `shipping`: what it costs to send an order, one amount in minor units for each currency (EUR:490); free in others.
    `tax_rate`: the tax contained in every price, in hundredths of a percent (2000: 20 %).
    `provider_url`: the payment provider, which speaks as Stripe does.
    `product_url`: the page of a product, which mails to its followers lead to.
    `notices_per_second`: how many followers are mailed at most; what SES allows must be enough for other mails, too.
    `cors_origins`: the web pages that may call the API. `retention_days`: how long a closed order stays in the table.
    `parallelization`: batches of one shard that are worked at a time, in order per item all the same.
    `import_lines_per_second`: products of imports that are written, at most; each is about 6 units of writing.
    `requests_per_second`, `burst_requests`: beyond these the API answers 429.
    `alarm_address`: where mails about alarms go, once whoever reads there has confirmed it; empty: to nobody.
    `operators`: the ARNs of the roles and users that may take on the operators' role; none: whoever the account lets.
    """

    name: str
    protect: bool
    shop_name: str = "Orderstream"
    sender: str = "orders@shop.example"
    cors_origins: tuple[str, ...] = ()
    shipping: tuple[str, ...] = ()
    tax_rate: int = _number(0, 0, 5_000)
    provider_url: str = "https://api.stripe.com"
    product_url: str = "https://shop.example/products/{product_id}"
    notices_per_second: int = _number(10, 2, 1_000)
    payment_window_minutes: int = _number(30, 1, 7 * 24 * 60)
    assumed_delivered_days: int = _number(30, 1, 365)
    return_window_days: int = _number(30, 0, 365)
    retention_days: int = _number(365, 1, 10 * 365)
    log_retention_days: int = _number(14, 1, 3653)
    parallelization: int = _number(1, 1, 10)
    import_lines_per_second: int = _number(50, 20, 1_000)
    requests_per_second: int = _number(50, 1, 10_000)
    burst_requests: int = _number(100, 1, 5_000)
    operators: tuple[str, ...] = ()
    alarm_address: str = ""

    @property
    def removal(self) -> "RemovalPolicy":
        """What becomes of a resource with data when the stack lets go of it."""
        from aws_cdk import RemovalPolicy  # noqa: PLC0415  reading settings need not start the CDK's Node

        return RemovalPolicy.RETAIN if self.protect else RemovalPolicy.DESTROY

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.metadata and not one.metadata["lowest"] <= value <= one.metadata["highest"]:
                raise BadSetting(
                    f"{one.name} is {value}: it must be from {one.metadata['lowest']} to {one.metadata['highest']}"
                )
        if self.log_retention_days not in LOG_RETENTION_DAYS:
            allowed = ", ".join(map(str, LOG_RETENTION_DAYS))
            raise BadSetting(f"log_retention_days is {self.log_retention_days}: CloudWatch Logs allows {allowed}")
        self._check_names()
        try:
            costs(",".join(self.shipping))
        except ValueError as error:
            raise BadSetting(f"shipping has '{error}': it must be like EUR:490") from None
        if self.protect and "*" in self.cors_origins:
            raise BadSetting(f"cors_origins has *: in {self.name} name the pages that may call the API")

    def _check_names(self) -> None:
        """How others are called and reached."""
        if not re.fullmatch(ADDRESS, self.sender):
            raise BadSetting(f"sender is {self.sender!r}: it must be an e-mail address, such as orders@shop.example")
        if self.alarm_address and not re.fullmatch(ADDRESS, self.alarm_address):
            raise BadSetting(f"alarm_address is {self.alarm_address!r}: it must be an e-mail address, or empty")
        if not self.shop_name.strip() or not self.shop_name.isprintable():
            raise BadSetting(f"shop_name is {self.shop_name!r}: it must be a name that can stand in a mail")
        if not re.fullmatch(
            r"https://[\w.-]+(:\d+)?" if self.protect else r"https?://[\w.-]+(:\d+)?", self.provider_url
        ):
            raise BadSetting(f"provider_url is {self.provider_url!r}: it must be like https://api.stripe.com")
        if not re.fullmatch(r"https?://[\w.-]+(:\d+)?/[^\s{}]*{product_id}[^\s{}]*", self.product_url):
            raise BadSetting(
                f"product_url is {self.product_url!r}: it must be like https://shop.example/products/{{product_id}}"
            )
        for arn in self.operators:
            if not re.fullmatch(r"arn:aws[\w-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+", arn):
                raise BadSetting(
                    f"operators has {arn!r}: it must be the ARN of a role or a user, such as "
                    "arn:aws:iam::111122223333:role/oncall"
                )
        for origin in self.cors_origins:
            if not re.fullmatch(r"\*|https?://[\w.-]+(:\d+)?", origin):
                raise BadSetting(
                    f"cors_origins has {origin!r}: it must be like https://shop.example, without a path, or *"
                )


STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(name="dev", protect=False, shipping=("EUR:490",), tax_rate=2_000),
        Stage(
            name="prod",
            protect=True,
            log_retention_days=90,
            parallelization=4,
            requests_per_second=500,
            burst_requests=1_000,
        ),
    )
}


def read(context: Callable[[str], object]) -> Stage:
    """The stage that the context names, with the settings it changes. Raises BadSetting."""
    name = context("stage") or "dev"
    if not isinstance(name, str) or name not in STAGES:
        raise BadSetting(f"stage is {name!r}: it must be one of {', '.join(STAGES)}")
    stage = STAGES[name]
    own = [one.name for one in fields(stage) if one.name not in ("name", "protect")]
    changed = {
        setting: _value(setting, given, getattr(stage, setting))
        for setting in own
        if (given := context(setting)) is not None
    }
    return replace(stage, **changed)


def _value(setting: str, given: object, default: object) -> Any:
    """What was given, as the type the setting has; the command line gives text, cdk.json what JSON knows."""
    if isinstance(default, tuple):
        listed = given if isinstance(given, list) else str(given).split(",")
        return tuple(str(one).strip() for one in listed)
    if isinstance(default, int):
        if isinstance(given, bool) or not re.fullmatch(r"\d{1,9}", str(given)):
            raise BadSetting(f"{setting} is {given!r}: it must be a whole number")
        return int(str(given))
    return str(given)

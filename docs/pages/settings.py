"""docs/settings.md: everything that differs from one deployment to another, in the words of stacks/stage.py."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from typing import Any

from docs import markdown
from functions.model.entities import SHARD_COUNT
from stacks.stage import LOG_RETENTION_DAYS, STAGES, Stage


def render_page() -> str:
    return markdown.render_page("Settings of a deployment", "stacks/stage.py", _sections())


def setting_descriptions() -> Mapping[str, str]:
    """What each setting means, as the class says it: `name`, `name`: what it is."""
    text = re.sub(r"\s+", " ", Stage.__doc__ or "")
    found = re.findall(r"((?:`\w+`(?:, )?)+): (.*?)(?=(?:(?:`\w+`(?:, )?)+: )|$)", text)
    return {name: told.strip() for names, told in found for name in re.findall(r"\w+", names)}


def format_value(value: Any) -> str:
    """A value as one gives it on the command line."""
    if isinstance(value, tuple):
        return f"`{','.join(value)}`" if value else "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else "none"


def _sections() -> Iterator[str]:
    yield """
`-c stage=dev` (the default) or `-c stage=prod` chooses a stage, and `-c NAME=VALUE` sets any single setting of it; a
list is separated by commas. With make: `make deploy STAGE=prod ARGS="-c sender=shop@your.domain -c
retention_days=730"`; for good, put them into the context of `cdk.json`. What makes no sense is refused at synth, with
a sentence that names it.
"""
    told = setting_descriptions()
    yield markdown.render_table(
        ("setting", *STAGES, "allowed", "what it is"),
        [
            (
                f"`{one.name}`",
                *(format_value(getattr(stage, one.name)) for stage in STAGES.values()),
                _allowed_values(one),
                told[one.name],
            )
            for one in fields(Stage)
            if one.name != "name"
        ],
    )
    yield "`protect` follows from the stage alone: what protects data cannot be set away."
    yield "## What is no setting, and why"
    yield f"""
- **Shards** of queues, feeds and totals ({SHARD_COUNT}, `SHARDS` in functions/model/entities.py). An item's shard is
  reckoned from its id and is part of its key; readers ask all of them. So the number may be raised, by a deploy, but
  never lowered: what lies in a shard that nobody asks any more is never paid, packed, lapsed or erased. It must be
  the same in all functions at all times, so it is a constant of the code that they share.
- **Parts** of a product's stock and of a discount code: each product and code says its own (`parts`, in the request
  that makes it), because heat is a product's, not a deployment's.
- **Lives** of queues, failures and effects (functions/model/retention.py): what remembers must outlive what can come
  again, which is checked at synth.
- **The stream's readers**: two, as many as a shard serves.
- **A name of the shop's own** for CloudFront: it needs a certificate of us-east-1 and whoever keeps the name.
"""
    yield "## A firewall"
    yield """
An HTTP API takes no web ACL itself, CloudFront does, and its web ACLs live in us-east-1 wherever the shop is. With
`web_acl` both stand before the API, whose own address answers 403 then, since CloudFront shows a secret that nobody
else has:

1. `make deploy STAGE=prod ARGS="-c firewall=true"` makes the stack `orderstream-prod-firewall` too; its output is
   `WebAclArn`.
2. `make deploy STAGE=prod ARGS="-c firewall=true -c web_acl=ARN -c front_only=false"` puts CloudFront before the API;
   its output is `FrontUrl`. The API's own address answers as before: tell everybody the new one, the payment provider
   and the warehouse first.
3. When nobody asks at the old one any more, the same without `front_only`: there it answers 403 from then on. A shop
   that is not open yet goes there at once.

The first needs `cdk bootstrap` of us-east-1. A firewall that the account has already needs the others alone. Ours lets
an address ask 2,000 times in five minutes, a person's many times over. A warehouse asks for all its orders from one
address: where these are more than two a second, name its network in `spared_addresses`. The provider's webhooks are not
counted: they are signed, and the stage's own throttle holds for them, too. How the secret between the two is changed is
on [a page of its own](runbooks/rotate-secrets.md#the-fronts-secret).
"""
    yield "## The page"
    yield """
The page that `make up` serves shows the inside of this machine, and signs people in by their name alone. With `page`
CloudFront serves the same files without that, at `/page/` beside the API, and people sign in at Cognito
([why so](decisions/0040-the-page-signs-in-as-a-public-client.md)):

1. `make deploy STAGE=prod ARGS="-c page=my-shop"`; its output is `PageUrl`. The prefix is taken once in a region: where
   somebody else has it, the deploy fails and is rolled back. The first takes some minutes more, CloudFront's.
2. Register there, as a customer would. Who works for the shop is put into a group, and signs in again:
   `aws cognito-idp admin-add-user-to-group --user-pool-id ID --username ADDRESS --group-name staff`
   (`UserPoolId` is an output, too). They see board and insight besides.
3. Let customers pay: put the form of your payment provider where `page/pay.js` says that the provider takes the
   payment. The payment names the order in its metadata, as `order_id`. What the form loads and whom it asks, add to
   `stacks/page_policy.py`; browsers refuse all else.

A firewall is a setting of its own: with `web_acl`, too, it stands before page and API alike. The page is some forty
files, of which a browser asks each time whether they are new: that many requests of the 2,000 in five minutes. Each
deploy has CloudFront forget the old ones. Without `page` the next deploy takes the page away, and where one signs in
for it; its bucket holds nothing else.

None of this was tried on AWS. [A test](../tests/browser/test_page_on_aws.py) walks through the page in a browser,
before stand-ins for CloudFront and Cognito that refuse what those would refuse; others look at
[the template](../tests/stacks/test_settings.py).
"""
    yield "## What has been measured, and what not"
    yield """
`snap_start` saves a cold start the imports: of the api, half a second of a laptop's processor. Clients (a tenth) and
secrets are made at the first request, so that no snapshot holds a secret. It was not measured on AWS: compare the log's
`Init Duration` with `Restore Duration` before you keep it. Ids, tokens and waits are made of the system's randomness,
which differs from one restored copy to the next.
"""


def _allowed_values(one: "Field[Any]") -> str:
    if one.name == "log_retention_days":
        return ", ".join(map(str, LOG_RETENTION_DAYS))
    if "lowest" in one.metadata:
        return f"{one.metadata['lowest']} to {one.metadata['highest']}"
    if "choices" in one.metadata:
        return ", ".join(one.metadata["choices"])
    if isinstance(one.default, tuple):
        return "a list"
    if one.type in (bool, "bool"):
        return "true, false"
    return "text"

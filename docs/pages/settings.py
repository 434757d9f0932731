"""docs/settings.md: all settings of a deployment, from their declarations in stacks/stage.py."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any

from docs import markdown
from functions.model.entities import SALE_SHARDS, SALES_MINUTE_SHARDS, STATUS_SHARDS
from stacks.stage import STAGES, Stage

POINTER = re.compile(r"\bdocs/([\w/-]+)\.md(#[\w-]+)?")
"""A page of docs/, or an anchor in it, in the description of a setting."""


def render_page() -> str:
    return markdown.render_page("Settings of a deployment", "stacks/stage.py", _sections())


def setting_descriptions() -> Mapping[str, str]:
    """Return the description of each setting: the string below its declaration."""
    (stage,) = [node for node in ast.parse(inspect.getsource(Stage)).body if isinstance(node, ast.ClassDef)]
    found = {}
    for pair in pairwise(stage.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def find_undescribed() -> Iterator[str]:
    """Yield one sentence for each setting without a description."""
    source, first = inspect.getsourcelines(Stage)
    described = setting_descriptions()
    for name in (one.name for one in fields(Stage) if one.name not in {"name", *described}):
        line = next(number for number, text in enumerate(source, first) if text.strip().startswith(f"{name}:"))
        yield f"stacks/stage.py:{line}: the setting {name} has no description: add it as a string below the declaration"


def format_value(value: Any) -> str:
    """Return a value in the form of the command line."""
    if isinstance(value, tuple):
        return f"`{','.join(value)}`" if value else "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else "none"


def _sections() -> Iterator[str]:
    yield """
The settings of a stage are in [stages/dev.toml](../stages/dev.toml) or [stages/prod.toml](../stages/prod.toml). The
files are yours: commit your values there. [The tables below](#all-settings) show the default of each setting:

```toml
sender = "shop@your.domain"
closed_order_days = 730
tracing = true
```

For one command (`synth`, `check-deploy`, `deploy`, `cost`), `-c NAME=VALUE` overrides a setting:
`make check-deploy PARTS=diff STAGE=prod ARGS="-c closed_order_days=730"`. Separate the values of a list with commas.
An invalid value or an unknown setting is rejected; the error names the file and the setting.

**Prod needs values for [the first settings](#set-these-first)**: synth rejects it without them. Taxes
([how](how-to/set-taxes.md)) and shipping ([how](how-to/set-shipping.md)) are data, not settings. Before the deploy, SES
must have verified the domain of `sender` ([how](first-deploy.md)). [docs/stages/prod.toml](stages/prod.toml) is an
example. The tests and the generated pages use it instead of your files (`-c stages=docs/stages`).

To add a stage, write a file such as `stages/staging.toml` with `defaults_of = "prod"` or `defaults_of = "dev"`. The new
stage takes all other settings, and `protect`, from that stage. `make deploy STAGE=staging` creates its stack,
`orderstream-staging`.

## All settings
"""
    for group, rows in _setting_rows().items():
        yield f"### {group}"
        yield markdown.render_table(("setting", *STAGES, "allowed", "description"), rows)
    yield "`protect` comes from dev, prod, or the stage in `defaults_of`. You cannot switch it off."
    yield "## Fixed values, and their reasons"
    yield f"""
- **Shards** of queues and feeds ({STATUS_SHARDS.written}), of the sales of a minute ({SALES_MINUTE_SHARDS.written}) and
  of a product's sales ({SALE_SHARDS.written}), in functions/model/entities/sharding.py. An item's shard is calculated
  from its id and is part of its key. A query sends one request for each shard. To have more shards without a gap, raise
  `read` and deploy, then raise `written` and deploy. All functions need the same numbers, so they are constants.
- **Stock parts** of a product, and parts of a discount code (the items that share its stock or its count). Each product
  and code has its own `parts`, because hot items depend on the product, not on the deployment ([how to set
  it](operations.md#a-product-that-sells-too-fast)).
- **Retention** of queues, failures and effect markers (functions/model/retention.py). A marker must be kept longer than
  its message can be redelivered. Synth checks this.
- **Stream readers**: the shop has two, the maximum for a shard of the stream.
"""
    yield "## Throttles and limits"
    yield """
| limit | whose requests | above it | where |
|---|---|---|---|
| account quota | all APIs of the account in the region | 429 | API Gateway |
| `requests_per_second`, `burst_requests` | everyone, without webhooks | 429 | API Gateway |
| `webhooks_per_second`, `burst_webhooks` | the payment provider | 429: the provider repeats the event | API Gateway |
| `customer_writes_per_minute`, `customer_write_burst` | a customer's writes | 429, `Retry-After` | function, table |
| `unpaid_orders_per_customer`, if not 0 | a customer's new orders | 409: pay or cancel an order | function, table |
| the firewall, if `web_acl` is set | each address | 403 | CloudFront |

API Gateway's limits are targets, not exact. `customer_writes_per_minute` is the same for all customers: raise it if a
company's program sends many orders as one customer.
"""
    yield "## Caches"
    yield """
CloudFront (with `sign_in_prefix` or `web_acl`) keeps the answers that are the same for everyone, such as products and
stock, for `public_cache_seconds` ([reasons](decisions/cost-and-scale.md#d76)). It keeps no other answers and no errors.

- A program that polls a list sends the `ETag` of the last answer as `If-None-Match`, and gets 304 without a body if
  nothing changed.
- An order never uses a cached price. A client that sends the `price` that it showed gets 409 if the price has changed.
- Do not send an access token with public reads. Each token has its own entries in the cache.
"""
    yield "## A firewall"
    yield """
An HTTP API cannot have a web ACL. CloudFront can have one, in us-east-1. With `web_acl`, the stack puts CloudFront and
the web ACL in front of the API. CloudFront sends a secret with each request, and the API answers 403 without it. If
the shop is not open yet, skip step 2.

1. `make deploy STAGE=prod ARGS="-c firewall=true"` also creates the stack `orderstream-prod-firewall`. Its output is
   `WebAclArn`.
2. `make deploy STAGE=prod ARGS="-c firewall=true -c web_acl=ARN -c require_cloudfront=false"` puts CloudFront in front
   of the API. Its output is `CloudFrontUrl`. The API's own address still works. Give the new address to all clients,
   first to the payment provider and the warehouse.
3. When no client uses the old address any more, run the command of step 2 without `-c require_cloudfront=false`. The
   old address then answers 403.

Step 1 needs `cdk bootstrap` for us-east-1. If the account already has a firewall, skip step 1. Our firewall allows
2,000 requests from an address in five minutes. It does not count the provider's webhooks, which are signed and
throttled. The managed rules of AWS inspect neither these webhooks nor unsubscribe links, and their rules of bodies only
count. If a warehouse sends more than two requests a second from one address, add its network to
`rate_limit_exempt_networks`. To rotate the secret, see [its runbook](runbooks/rotate-secrets.md#the-origin-secret).

If a rule blocks more than 100 requests in five minutes, `alarm_address` gets a mail (confirm its subscription in
us-east-1, too). The alarm's name ends with the rule. Compare the time with the API's requests and the complaints of
customers. If the rule blocks customers, find the inner rule in the console of AWS WAF and add its name to
`COUNT_ONLY_RULES` in [the firewall's stack](../stacks/firewall_stack.py). To let a rule of bodies block, remove it
there after some weeks in which its `CountedRequests` were attacks only.
"""
    yield "## The page"
    yield """
With the setting `sign_in_prefix`, CloudFront serves the page of `make up` without its internals, at `/page/` beside the
API, and users sign in with Cognito
([reasons](decisions/access-and-limits.md#d40)):

1. Set `sign_in_prefix = "my-shop"` and deploy. The output is `PageUrl`. The prefix must be unique in the region.
   If it is taken, the deploy fails and is rolled back. The first deploy takes some minutes longer, because of
   CloudFront.
2. Register on the page as a customer does. To make a user a member of the staff, add them to the group:
   `aws cognito-idp admin-add-user-to-group --user-pool-id ID --username ADDRESS --group-name staff`
   (`UserPoolId` is an output). After the next sign-in, the user also sees the board and the insight view.
3. To accept payments, [connect Stripe](stripe.md), and add its form in `page/pay.js`, at the place marked there. In
   `stacks/page_policy.py`, add the addresses that the form loads from and connects to. Browsers block all others.

If you remove `sign_in_prefix`, the next deploy deletes the page and its sign-in. The page was not tested on AWS, only
[in a browser](../tests/browser/test_page_on_aws.py) with replacements for CloudFront and Cognito.
"""
    yield "## The account"
    yield """
A stage sets these things in its account:

- **Costs.** All resources have the tag `orderstream-stage` with the name of the stage. Activate the tag once as a
  cost allocation tag in the billing console. `monthly_budget` counts all costs of the account, because a budget for a
  tag counts nothing before the activation.
- **A domain.** Request a certificate in AWS Certificate Manager (with `sign_in_prefix` or `web_acl` in us-east-1, else
  in the region of the stack), and confirm it. Set `domain` and `certificate`, and deploy. Then point the DNS record
  (CNAME, or an alias in Route 53) to the output `DomainTarget`, and give the new address to the payment provider. The
  addresses of AWS still work, but the page's sign-in works only at the new address.
- **A permissions boundary.** With `permissions_boundary`, no role of the stack can do more than this policy allows. It
  must allow the actions of [permissions](permissions.md). If the account requires a boundary for new roles, bootstrap
  the CDK with it, too: `cdk bootstrap --custom-permissions-boundary NAME`
  ([AWS](https://docs.aws.amazon.com/cdk/v2/guide/customize-permissions-boundaries.html)).
- **A role for deploys**, which may only assume the roles of the bootstrap ([ci](ci.md#access-from-github-to-aws)).
"""
    yield "## Backups that an intruder cannot delete"
    yield """
An administrator of the shop's account can delete the backups in the vault of the stack.

- `backup_lock_days` locks the vault in governance mode. During these days, only users with
  `backup:DeleteBackupVaultLockConfiguration` can delete a backup. Deny this action to everyone in a policy of the
  organization ([AWS](https://docs.aws.amazon.com/aws-backup/latest/devguide/vault-lock.html)).
- `backup_copy_vault` can be a vault in another account of the organization, to which the shop's administrators have no
  access. Set it up once
  ([AWS](https://docs.aws.amazon.com/aws-backup/latest/devguide/create-cross-account-backup.html)). In the
  organization's management account, allow cross-account backup. In the shop's account, turn on AWS Backup's advanced
  features for DynamoDB. In the other account, create the vault with its own KMS key, which the shop's account may use,
  and allow the shop's account `backup:CopyIntoBackupVault` in the vault's policy. To restore, copy the backup back, and
  follow [restoring](runbooks/restore-table.md). We did not try these steps on AWS.
"""
    yield "## Measurements"
    yield """
With `snap_start`, a cold start of the API skips the [imports](performance.md#cold-start). A snapshot has no secret
([reasons](decisions/cost-and-scale.md#d80)). We did not measure this on AWS: before you keep it, set
`invocation_reports`, and compare `Init Duration` with `Restore Duration` in the log.
"""


def _setting_rows() -> Mapping[str, list[tuple[str, ...]]]:
    """Return the row of each setting, by group."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    group, told, types = "", setting_descriptions(), {bool: "true, false", str: "text", tuple: "a list"}
    for one in (one for one in fields(Stage) if one.name != "name"):
        group, rule = one.metadata.get("group") or group, one.metadata.get("rule")
        values = [getattr(stage, one.name) for stage in STAGES.values()]
        allowed = rule.allowed if rule and rule.allowed else types[type(values[0])]
        description = POINTER.sub(r"[\1](\1.md\2)", told[one.name])
        groups.setdefault(group, []).append((f"`{one.name}`", *map(format_value, values), allowed, description))
    return groups

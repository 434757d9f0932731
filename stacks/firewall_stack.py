"""The firewall for CloudFront. It has its own stack, because web ACLs for CloudFront exist only in us-east-1."""

from ipaddress import ip_network

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from functions.model.public_routes import UNSUBSCRIBE_PATH
from stacks.stage import Stage, cost_tags

REGION = "us-east-1"
MAX_REQUESTS_PER_ADDRESS = 2_000
"""How many requests an IP address may send in five minutes.

Above this limit the address gets 403 until it sends fewer requests.
"""
WEBHOOK_PATH = "/payments/events"
MANAGED_RULE_GROUPS = (
    "AWSManagedRulesAmazonIpReputationList",
    "AWSManagedRulesKnownBadInputsRuleSet",
    "AWSManagedRulesCommonRuleSet",
)
COUNT_ONLY_RULES = {"AWSManagedRulesCommonRuleSet": ("SizeRestrictions_BODY", "NoUserAgent_HEADER")}
"""Firewall rules that only count requests and do not block them.

The rule SizeRestrictions_BODY would block product imports, because their bodies are larger than 8 KB. The API checks
the size of a body itself. NoUserAgent_HEADER could block mail providers that unsubscribe a customer, because they need
not send the header User-Agent.
"""


class FirewallStack(Stack):
    """The stack with the web ACL. Its output `WebAclArn` is the value for the main stack's setting `web_acl`."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        description = f"The firewall of {stage.shop_name} ({stage.name})"
        super().__init__(
            scope,
            id,
            description=description,
            env={"region": REGION},
            termination_protection=stage.has_protections,
            tags=cost_tags(stage),
        )
        limit = waf.CfnWebACL.RateBasedStatementProperty(
            limit=MAX_REQUESTS_PER_ADDRESS,
            aggregate_key_type="IP",
            scope_down_statement=self._rate_limited_requests(stage),
        )
        one_address = waf.CfnWebACL.RuleProperty(
            name="OneAddress",
            priority=0,
            action=waf.CfnWebACL.RuleActionProperty(block={}),
            statement=waf.CfnWebACL.StatementProperty(rate_based_statement=limit),
            visibility_config=_visibility("OneAddress"),
        )
        acl = waf.CfnWebACL(
            self,
            "WebAcl",
            scope="CLOUDFRONT",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            rules=[one_address, *(_managed_rule(name, at) for at, name in enumerate(MANAGED_RULE_GROUPS, start=1))],
            visibility_config=_visibility("All"),
        )
        CfnOutput(self, "WebAclArn", value=acl.attr_arn)

    def _rate_limited_requests(self, stage: Stage) -> waf.CfnWebACL.StatementProperty:
        """Return the statement that selects the requests counted per IP address.

        The rate limit does not count the payment provider's webhooks and the mail providers' requests to unsubscribe:
        they are signed or sealed, and all of them come from a few addresses. Requests from the networks in the stage's
        `rate_limit_exempt_networks` are not counted either.
        """
        statement = waf.CfnWebACL.StatementProperty
        spared = [
            statement(
                byte_match_statement=waf.CfnWebACL.ByteMatchStatementProperty(
                    search_string=path,
                    field_to_match=waf.CfnWebACL.FieldToMatchProperty(uri_path={}),
                    positional_constraint="EXACTLY",
                    text_transformations=[waf.CfnWebACL.TextTransformationProperty(priority=0, type="NONE")],
                )
            )
            for path in (WEBHOOK_PATH, UNSUBSCRIBE_PATH)
        ]
        for version in (4, 6):
            if networks := [one for one in stage.rate_limit_exempt_networks if ip_network(one).version == version]:
                known = waf.CfnIPSet(
                    self, f"Spared{version}", scope="CLOUDFRONT", ip_address_version=f"IPV{version}", addresses=networks
                )
                referred = waf.CfnWebACL.IPSetReferenceStatementProperty(arn=known.attr_arn)
                spared.append(statement(ip_set_reference_statement=referred))
        either = waf.CfnWebACL.OrStatementProperty(statements=spared)
        return statement(not_statement=waf.CfnWebACL.NotStatementProperty(statement=statement(or_statement=either)))


def _managed_rule(name: str, priority: int) -> waf.CfnWebACL.RuleProperty:
    """Return a firewall rule that uses a rule group maintained by AWS."""
    only_counted = [
        waf.CfnWebACL.RuleActionOverrideProperty(name=rule, action_to_use=waf.CfnWebACL.RuleActionProperty(count={}))
        for rule in COUNT_ONLY_RULES.get(name, ())
    ]
    group = waf.CfnWebACL.ManagedRuleGroupStatementProperty(
        vendor_name="AWS", name=name, rule_action_overrides=only_counted or None
    )
    return waf.CfnWebACL.RuleProperty(
        name=name,
        priority=priority,
        override_action=waf.CfnWebACL.OverrideActionProperty(none={}),
        statement=waf.CfnWebACL.StatementProperty(managed_rule_group_statement=group),
        visibility_config=_visibility(name),
    )


def _visibility(name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
    """Return settings that enable CloudWatch metrics, but no sampled requests.

    Sampled requests contain tokens and IP addresses.
    """
    return waf.CfnWebACL.VisibilityConfigProperty(
        cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=False
    )

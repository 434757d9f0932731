"""The firewall for CloudFront, a stack of its own: its web ACLs live in us-east-1 alone, wherever the shop is."""

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from stacks.stage import Stage

REGION = "us-east-1"
REQUESTS_OF_ONE_ADDRESS = 2_000
"""In five minutes; beyond it an address is answered 403 until it is quieter."""
MANAGED = (
    "AWSManagedRulesAmazonIpReputationList",
    "AWSManagedRulesKnownBadInputsRuleSet",
    "AWSManagedRulesCommonRuleSet",
)
ONLY_COUNTED = {"AWSManagedRulesCommonRuleSet": ("SizeRestrictions_BODY",)}
"""Imports are larger than 8 KB; the api itself measures what it is sent."""


class FirewallStack(Stack):
    """Output `WebAclArn`: what the setting `web_acl` takes."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        description = f"The firewall of {stage.shop_name} ({stage.name})"
        super().__init__(
            scope, id, description=description, env={"region": REGION}, termination_protection=stage.protect
        )
        limit = waf.CfnWebACL.RateBasedStatementProperty(limit=REQUESTS_OF_ONE_ADDRESS, aggregate_key_type="IP")
        one_address = waf.CfnWebACL.RuleProperty(
            name="OneAddress",
            priority=0,
            action=waf.CfnWebACL.RuleActionProperty(block={}),
            statement=waf.CfnWebACL.StatementProperty(rate_based_statement=limit),
            visibility_config=_counted("OneAddress"),
        )
        acl = waf.CfnWebACL(
            self,
            "WebAcl",
            scope="CLOUDFRONT",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            rules=[one_address, *(_managed(name, at) for at, name in enumerate(MANAGED, start=1))],
            visibility_config=_counted("All"),
        )
        CfnOutput(self, "WebAclArn", value=acl.attr_arn)


def _managed(name: str, priority: int) -> waf.CfnWebACL.RuleProperty:
    """A list of rules that AWS keeps."""
    only_counted = [
        waf.CfnWebACL.RuleActionOverrideProperty(name=rule, action_to_use=waf.CfnWebACL.RuleActionProperty(count={}))
        for rule in ONLY_COUNTED.get(name, ())
    ]
    group = waf.CfnWebACL.ManagedRuleGroupStatementProperty(
        vendor_name="AWS", name=name, rule_action_overrides=only_counted or None
    )
    return waf.CfnWebACL.RuleProperty(
        name=name,
        priority=priority,
        override_action=waf.CfnWebACL.OverrideActionProperty(none={}),
        statement=waf.CfnWebACL.StatementProperty(managed_rule_group_statement=group),
        visibility_config=_counted(name),
    )


def _counted(name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
    """Counted in CloudWatch; no sampled requests, which hold tokens and addresses."""
    return waf.CfnWebACL.VisibilityConfigProperty(
        cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=False
    )

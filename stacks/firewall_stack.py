"""The firewall for CloudFront. It has its own stack, because web ACLs for CloudFront exist only in us-east-1."""

from ipaddress import ip_network

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from functions.model.public_routes import UNSUBSCRIBE_PATH
from stacks.alarms import allow_alarms, aws_metric
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage, cost_tags

REGION = "us-east-1"
MAX_REQUESTS_PER_ADDRESS = 2_000
"""How many requests an IP address may send in five minutes, before it gets 403 until it sends fewer."""
BLOCKED_REQUESTS_OF_ALARM = 100
"""An alarm is raised if a rule blocks more requests than this in five minutes."""
WEBHOOK_PATH = "/payments/events"
AUTHENTICATED_PATHS = (WEBHOOK_PATH, UNSUBSCRIBE_PATH)
"""Public paths whose requests are signed or sealed. The firewall does not inspect them, so it loses none."""
MANAGED_RULE_GROUPS = (
    "AWSManagedRulesAmazonIpReputationList",
    "AWSManagedRulesKnownBadInputsRuleSet",
    "AWSManagedRulesCommonRuleSet",
)
COUNT_ONLY_RULES = {
    "AWSManagedRulesCommonRuleSet": (
        "SizeRestrictions_BODY",
        "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "CrossSiteScripting_BODY",
        "NoUserAgent_HEADER",
    ),
    "AWSManagedRulesKnownBadInputsRuleSet": ("JavaDeserializationRCE_BODY", "Log4JRCE_BODY"),
}
"""Firewall rules that only count requests and do not block them.

The rules of bodies could block orders and product imports for their texts or their size: the API checks bodies itself.
AWS advises to count first, too. Programs of partners, such as a warehouse, need not send the header User-Agent.
https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html
"""


NO_KEY_REASON = "The alarms name only rules and numbers, and the shop's key is in another region."


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
        name = f"orderstream-{stage.name}"
        paths = waf.CfnWebACL.StatementProperty(
            not_statement=waf.CfnWebACL.NotStatementProperty(statement=_any_of(_authenticated_paths()))
        )
        acl = waf.CfnWebACL(
            self,
            "WebAcl",
            name=name,
            scope="CLOUDFRONT",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            rules=[one_address, *(_managed_rule(group, at, paths) for at, group in enumerate(MANAGED_RULE_GROUPS, 1))],
            visibility_config=_visibility(name),
        )
        self._add_alarms(stage, name)
        CfnOutput(self, "WebAclArn", value=acl.attr_arn)

    def _add_alarms(self, stage: Stage, acl: str) -> None:
        """Add an alarm for each rule that blocks many requests, and a topic: both must be in the firewall's region.

        https://docs.aws.amazon.com/waf/latest/developerguide/waf-metrics.html
        """
        topic = sns.Topic(self, "Topic", enforce_ssl=True)
        acknowledge(topic, dict.fromkeys(("AwsSolutions-SNS2", "Serverless-SNSEncryption"), NO_KEY_REASON))
        allow_alarms(topic, stage)
        for rule in ("OneAddress", *MANAGED_RULE_GROUPS):
            cloudwatch.Alarm(
                self,
                f"Blocked{rule}",
                alarm_name=f"{self.stack_name}-blocked-{rule}",
                alarm_description=f"{rule} blocks many requests. What to do: docs/settings.md#a-firewall",
                metric=aws_metric("AWS/WAFV2 BlockedRequests", {"WebACL": acl, "Rule": rule}, "Sum", 5),
                evaluation_periods=1,
                threshold=BLOCKED_REQUESTS_OF_ALARM,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
                treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            ).add_alarm_action(actions.SnsAction(topic))

    def _rate_limited_requests(self, stage: Stage) -> waf.CfnWebACL.StatementProperty:
        """Return the requests counted by IP address, without exempt networks, webhooks and unsubscribing."""
        statement = waf.CfnWebACL.StatementProperty
        spared = _authenticated_paths()
        for version in (4, 6):
            if networks := [one for one in stage.rate_limit_exempt_networks if ip_network(one).version == version]:
                known = waf.CfnIPSet(
                    self, f"Spared{version}", scope="CLOUDFRONT", ip_address_version=f"IPV{version}", addresses=networks
                )
                referred = waf.CfnWebACL.IPSetReferenceStatementProperty(arn=known.attr_arn)
                spared.append(statement(ip_set_reference_statement=referred))
        return statement(not_statement=waf.CfnWebACL.NotStatementProperty(statement=_any_of(spared)))


def _authenticated_paths() -> list[waf.CfnWebACL.StatementProperty]:
    """Return a statement for each path that the firewall does not inspect."""
    return [
        waf.CfnWebACL.StatementProperty(
            byte_match_statement=waf.CfnWebACL.ByteMatchStatementProperty(
                search_string=path,
                field_to_match=waf.CfnWebACL.FieldToMatchProperty(uri_path={}),
                positional_constraint="EXACTLY",
                text_transformations=[waf.CfnWebACL.TextTransformationProperty(priority=0, type="NONE")],
            )
        )
        for path in AUTHENTICATED_PATHS
    ]


def _any_of(statements: list[waf.CfnWebACL.StatementProperty]) -> waf.CfnWebACL.StatementProperty:
    return waf.CfnWebACL.StatementProperty(or_statement=waf.CfnWebACL.OrStatementProperty(statements=statements))


def _managed_rule(name: str, priority: int, inspected: waf.CfnWebACL.StatementProperty) -> waf.CfnWebACL.RuleProperty:
    """Return a firewall rule that uses a rule group maintained by AWS, for the `inspected` requests only."""
    only_counted = [
        waf.CfnWebACL.RuleActionOverrideProperty(name=rule, action_to_use=waf.CfnWebACL.RuleActionProperty(count={}))
        for rule in COUNT_ONLY_RULES.get(name, ())
    ]
    group = waf.CfnWebACL.ManagedRuleGroupStatementProperty(
        vendor_name="AWS",
        name=name,
        rule_action_overrides=only_counted or None,
        scope_down_statement=inspected,
    )
    return waf.CfnWebACL.RuleProperty(
        name=name,
        priority=priority,
        override_action=waf.CfnWebACL.OverrideActionProperty(none={}),
        statement=waf.CfnWebACL.StatementProperty(managed_rule_group_statement=group),
        visibility_config=_visibility(name),
    )


def _visibility(name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
    """Return settings with CloudWatch metrics, but no sampled requests, which contain tokens and IP addresses."""
    return waf.CfnWebACL.VisibilityConfigProperty(
        cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=False
    )

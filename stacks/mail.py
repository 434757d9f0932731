"""SES: the configuration set with which all mails of a stage are sent."""

from aws_cdk import Stack
from aws_cdk import aws_ses as ses
from constructs import Construct

from functions.model.metrics import KIND_TAG, SET_TAG
from stacks.stage import Stage


class ShopMail(Construct):
    """The configuration set. `configuration_set`: its name. `sending_arns`: senders need permission for these ARNs.

    After a bounce or a complaint, SES puts the address on its suppression list. SES accepts later mails to the address,
    but does not send them: https://docs.aws.amazon.com/ses/latest/dg/sending-email-suppression-list-config-level.html

    CloudWatch counts bounces and complaints for each kind of mail. The shop does not store the single events, because
    they contain addresses (docs/decisions/mails.md#d84).
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        super().__init__(scope, id)
        made = ses.ConfigurationSet(
            self,
            "Set",
            reputation_metrics=True,
            suppression_reasons=ses.SuppressionReasons.BOUNCES_AND_COMPLAINTS,
        )
        ses.CfnConfigurationSetEventDestination(
            self,
            "Problems",
            configuration_set_name=made.configuration_set_name,
            event_destination=ses.CfnConfigurationSetEventDestination.EventDestinationProperty(
                enabled=True,
                matching_event_types=["bounce", "complaint"],
                cloud_watch_destination=ses.CfnConfigurationSetEventDestination.CloudWatchDestinationProperty(
                    dimension_configurations=[
                        ses.CfnConfigurationSetEventDestination.DimensionConfigurationProperty(
                            dimension_name=tag, dimension_value_source="messageTag", default_dimension_value="none"
                        )
                        for tag in (SET_TAG, KIND_TAG)
                    ]
                ),
            ),
        )
        self.configuration_set: str = made.configuration_set_name
        # IAM checks the set and the sender's identity: the sender's address if SES has verified it, else its domain.
        self.sending_arns = [
            Stack.of(self).format_arn(service="ses", resource=kind, resource_name=name)
            for kind, name in (
                ("identity", stage.sender),
                ("identity", stage.sender_domain),
                ("configuration-set", self.configuration_set),
            )
        ]

"""Names the resources of runbooks in the outputs of the stack: mappings and rules to enable, and queues to empty."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aws_cdk import Fn, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_sqs as sqs

from functions.model.lambdas import resource_prefix


@dataclass
class RunbookResources:
    """The resources that the runbooks use, by Lambda or by reaction: mapping ids, rules, and queues of failed runs."""

    mappings: dict[str, str] = field(default_factory=dict)
    rules: dict[str, events.Rule] = field(default_factory=dict)
    failed_run_queues: dict[str, sqs.Queue] = field(default_factory=dict)

    @property
    def outputs(self) -> Mapping[str, str]:
        """The stack outputs by name, such as {"CopiesReaderMapping": id of copies_reader's event source mapping}."""
        return {
            **{f"{resource_prefix(name)}Mapping": id for name, id in self.mappings.items()},
            **{
                f"{resource_prefix(name)}Rule": _rule_name(rule, of_the_bus=name not in self.failed_run_queues)
                for name, rule in self.rules.items()
            },
            **{
                f"{resource_prefix(name)}DeadLetters": queue.queue_url for name, queue in self.failed_run_queues.items()
            },
        }

    @property
    def mapping_arns(self) -> list[str]:
        stack = Stack.of(next(iter(self.rules.values())))
        arn = "arn:{}:lambda:{}:{}:event-source-mapping:{}"
        return [arn.format(stack.partition, stack.region, stack.account, id) for id in self.mappings.values()]


def _rule_name(rule: events.Rule, *, of_the_bus: bool) -> str:
    """Return the name of an EventBridge rule from its ARN, which on a custom bus also has the bus name."""
    return str(Fn.select(2 if of_the_bus else 1, Fn.split("/", rule.rule_arn)))

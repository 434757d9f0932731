"""A resource that cannot be created. With it, `make prove` checks that CloudFormation rolls back a failed deploy."""

from aws_cdk import CfnResource, CfnWaitCondition, CfnWaitConditionHandle
from constructs import Construct


class FailingResource(Construct):
    """A wait condition that gets no signal, so it fails one second after all other resources of the stack exist.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-waitcondition.html
    """

    def __init__(self, scope: Construct, id: str) -> None:
        others = [one for one in scope.node.find_all() if CfnResource.is_cfn_resource(one)]
        super().__init__(scope, id)
        handle = CfnWaitConditionHandle(self, "Handle")
        failing = CfnWaitCondition(self, "Signal", handle=handle.ref, timeout="1", count=1)
        for one in others:
            failing.add_dependency(one)

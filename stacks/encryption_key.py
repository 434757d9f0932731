"""The KMS key that encrypts the table, the secrets, the backups, the alarm topic, and the buckets with data.

The buckets hold archived orders, failed records, and the results of queries. Roles of this account can use the key only
through a few AWS services, such as DynamoDB and S3. A role needs its own permission to use the key; docs/permissions.md
lists the permissions that this stack grants. An administrator of the account can manage the key. But even an
administrator cannot call KMS directly to decrypt data, unless the administrator changes the policy of the key.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
"""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.stage import Stage

USING_SERVICES = ("dynamodb", "s3", "secretsmanager", "backup")
MANAGE_ACTIONS = (
    "kms:CancelKeyDeletion",
    "kms:CreateAlias",
    "kms:DeleteAlias",
    "kms:DescribeKey",
    "kms:DisableKey",
    "kms:DisableKeyRotation",
    "kms:EnableKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListAliases",
    "kms:ListGrants",
    "kms:ListKeyPolicies",
    "kms:ListKeyRotations",
    "kms:ListResourceTags",
    "kms:PutKeyPolicy",
    "kms:RetireGrant",
    "kms:RevokeGrant",
    "kms:RotateKeyOnDemand",
    "kms:ScheduleKeyDeletion",
    "kms:TagResource",
    "kms:UntagResource",
    "kms:UpdateAlias",
    "kms:UpdateKeyDescription",
)
USE_ACTIONS = (
    "kms:CreateGrant",  # lets DynamoDB do background work on the table
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
DESCRIBE_ACTIONS = (
    "kms:DescribeKey",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListGrants",
    "kms:ListKeyPolicies",
)


class EncryptionKey(kms.Key):
    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        account = iam.AccountRootPrincipal()
        region = Stack.of(scope).region
        services = [f"{service}.{region}.amazonaws.com" for service in USING_SERVICES]
        dynamodb = iam.ServicePrincipal("dynamodb.amazonaws.com")
        statements = [
            _allow("ManagedByTheAccount", account, MANAGE_ACTIONS),
            _allow("UsedThroughServices", account, USE_ACTIONS, {"StringEquals": {"kms:ViaService": services}}),
            _allow("DynamoDbMayDescribe", dynamodb, DESCRIBE_ACTIONS),
        ]
        super().__init__(
            scope,
            id,
            description=f"Encrypts the stored data of {stage.shop_name} ({stage.name})",
            enable_key_rotation=True,
            policy=iam.PolicyDocument(statements=statements),
            removal_policy=stage.removal_policy,
        )


def _allow(
    sid: str, principal: iam.IPrincipal, actions: tuple[str, ...], conditions: dict[str, object] | None = None
) -> iam.PolicyStatement:
    """Return a statement of the key policy. In a key policy, the resource * means only this key."""
    return iam.PolicyStatement(
        sid=sid, principals=[principal], actions=list(actions), resources=["*"], conditions=conditions
    )

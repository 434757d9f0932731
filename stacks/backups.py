"""Backups of the table that outlive it, and the 35 days of point-in-time recovery, with copies in another region."""

from aws_cdk import Duration
from aws_cdk import aws_backup as backup
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage
from stacks.table import OrdersTable

SERVICE_POLICIES = (
    "service-role/AWSBackupServiceRolePolicyForBackup",
    "service-role/AWSBackupServiceRolePolicyForRestores",
)


class Backups(Construct):
    """The backup plan and its vault, which stays with its backups if a protected stack is deleted."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, table: OrdersTable, key: kms.IKey) -> None:
        super().__init__(scope, id)
        lock = backup.LockConfiguration(min_retention=Duration.days(stage.backup_lock_days))
        vault = backup.BackupVault(
            self,
            "Vault",
            encryption_key=key,
            removal_policy=stage.removal_policy,
            lock_configuration=lock if stage.backup_lock_days else None,
        )
        plan = backup.BackupPlan(self, "Plan", backup_vault=vault)
        for name, day, days in (("Daily", "*", stage.daily_backup_days), ("Monthly", "1", stage.monthly_backup_days)):
            if days:
                plan.add_rule(
                    backup.BackupPlanRule(
                        rule_name=name,
                        schedule_expression=events.Schedule.cron(minute="0", hour="3", day=day),
                        delete_after=Duration.days(days),
                        copy_actions=self._copy_actions(stage, days),
                    )
                )
        managed = [iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in SERVICE_POLICIES]
        principal = iam.ServicePrincipal("backup.amazonaws.com")
        role = iam.Role(self, "Role", assumed_by=principal, managed_policies=managed)
        plan.add_selection(
            "Table",
            resources=[backup.BackupResource.from_arn(table.arn)],
            role=role,
            disable_default_backup_policy=True,
        )
        self.vault_name: str = vault.backup_vault_name
        self.role_arn: str = role.role_arn
        acknowledge(
            role,
            {
                f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]": (
                    "AWS maintains the permissions that AWS Backup needs. Only AWS Backup can assume this role."
                )
                for name in SERVICE_POLICIES
            },
        )

    def _copy_actions(self, stage: Stage, days: int) -> list[backup.BackupPlanCopyActionProps]:
        if not stage.backup_copy_vault:
            return []
        elsewhere = backup.BackupVault.from_backup_vault_arn(self, f"Copies{days}", stage.backup_copy_vault)
        return [backup.BackupPlanCopyActionProps(destination_backup_vault=elsewhere, delete_after=Duration.days(days))]

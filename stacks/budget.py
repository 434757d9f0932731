"""The monthly budget: AWS mails the alarm address when the account's costs approach or will exceed the budget.

The budget counts all costs of the account. AWS could count one stage by its cost tag only after a person activated the
tag in the billing console. https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-managing-costs.html
"""

from aws_cdk import Stack
from aws_cdk import aws_budgets as budgets
from constructs import Construct

from stacks.stage import Stage

NOTIFICATIONS = (("ACTUAL", 80), ("FORECASTED", 100))
"""AWS sends a mail when costs of this kind reach this percentage of the budget."""


class MonthlyBudget(Construct):
    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        super().__init__(scope, id)
        made = budgets.CfnBudget
        budgets.CfnBudget(
            self,
            "Budget",
            budget=made.BudgetDataProperty(
                budget_name=Stack.of(self).stack_name,
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=made.SpendProperty(amount=stage.monthly_budget, unit="USD"),
            ),
            notifications_with_subscribers=[
                made.NotificationWithSubscribersProperty(
                    notification=made.NotificationProperty(
                        comparison_operator="GREATER_THAN",
                        notification_type=kind,
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[made.SubscriberProperty(address=stage.alarm_address, subscription_type="EMAIL")],
                )
                for kind, percent in NOTIFICATIONS
            ],
        )

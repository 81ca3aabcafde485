//! What operators have in common that pass their rows on as they come.

/// The methods of `ExecutionPlan` for a node with a field `input` and a method `with_input`, whose
/// output is its input in every respect: partitions, order, statistics and filters.
macro_rules! transparent {
    () => {
        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            self.input.properties()
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn ExecutionPlan>> {
            vec![&self.input]
        }

        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }

        fn replace_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn ExecutionPlan>>,
            _options: datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> datafusion::common::Result<std::sync::Arc<dyn ExecutionPlan>> {
            match <[_; 1]>::try_from(children) {
                Ok([input]) => Ok(std::sync::Arc::new(self.with_input(input))),
                Err(children) => datafusion::common::internal_err!(
                    "expected one child, not {}",
                    children.len()
                ),
            }
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn ExecutionPlan>> {
            use datafusion::physical_plan::execution_plan::{
                ChildrenPropertiesMode, ReplaceChildrenOptions,
            };
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            self.replace_children(children, options)
        }

        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<datafusion::physical_plan::statistics::ChildStats> {
            vec![datafusion::physical_plan::statistics::ChildStats::At(
                partition,
            )]
        }

        fn statistics_from_inputs(
            &self,
            input_stats: &[std::sync::Arc<datafusion::common::Statistics>],
            _args: &datafusion::physical_plan::statistics::StatisticsArgs,
        ) -> datafusion::common::Result<std::sync::Arc<datafusion::common::Statistics>> {
            match input_stats {
                [input] => Ok(std::sync::Arc::clone(input)),
                other => datafusion::common::internal_err!(
                    "expected the statistics of one child, not {}",
                    other.len()
                ),
            }
        }

        fn cardinality_effect(
            &self,
        ) -> datafusion::physical_plan::execution_plan::CardinalityEffect {
            datafusion::physical_plan::execution_plan::CardinalityEffect::Equal
        }

        fn gather_filters_for_pushdown(
            &self,
            _phase: datafusion::physical_plan::filter_pushdown::FilterPushdownPhase,
            parent_filters: Vec<std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>>,
            _config: &datafusion::config::ConfigOptions,
        ) -> datafusion::common::Result<
            datafusion::physical_plan::filter_pushdown::FilterDescription,
        > {
            datafusion::physical_plan::filter_pushdown::FilterDescription::from_children(
                parent_filters,
                &self.children(),
            )
        }

        fn handle_child_pushdown_result(
            &self,
            _phase: datafusion::physical_plan::filter_pushdown::FilterPushdownPhase,
            child_pushdown_result: datafusion::physical_plan::filter_pushdown::ChildPushdownResult,
            _config: &datafusion::config::ConfigOptions,
        ) -> datafusion::common::Result<
            datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation<
                std::sync::Arc<dyn ExecutionPlan>,
            >,
        > {
            Ok(
                datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation::if_all(
                    child_pushdown_result,
                ),
            )
        }
    };
}

pub(crate) use transparent;

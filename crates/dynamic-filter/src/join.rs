//! [`Join`]: what the rules need to know of any join operator.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::{collect_columns, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion_partitioned_core::{Comparison, rewrite_columns};

type Expr = Arc<dyn PhysicalExpr>;

/// A view of a join operator.
pub(crate) struct Join<'a> {
    pub(crate) left: &'a Arc<dyn ExecutionPlan>,
    pub(crate) right: &'a Arc<dyn ExecutionPlan>,
    pub(crate) join_type: JoinType,
    pub(crate) null_equality: NullEquality,
    /// Whether it is a `NOT IN`, for which one NULL on the right decides about all rows.
    pub(crate) is_null_aware: bool,
    /// Whether it reads all of the left side before any of the right one. Otherwise it reads them
    /// side by side.
    pub(crate) reads_left_first: bool,
    on: &'a [(Expr, Expr)],
    filter: Option<&'a JoinFilter>,
    projection: Option<&'a [usize]>,
}

/// One of the inputs of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Something that holds between the rows of a match: `consumer comparison producer`.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    /// Over the side whose rows may be left out.
    pub(crate) consumer: Expr,
    /// Over the other side.
    pub(crate) producer: Expr,
    pub(crate) comparison: Comparison,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

impl<'a> Join<'a> {
    /// `None` when `plan` is no join, or one of a kind that is left alone.
    pub(crate) fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Some(Self {
                left: join.left(),
                right: join.right(),
                join_type: *join.join_type(),
                null_equality: join.null_equality(),
                is_null_aware: join.null_aware,
                reads_left_first: true,
                on: join.on(),
                filter: join.filter(),
                projection: join.projection.as_deref(),
            });
        }
        if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
            return Some(Self {
                left: join.left(),
                right: join.right(),
                join_type: join.join_type(),
                null_equality: join.null_equality(),
                is_null_aware: false,
                reads_left_first: false,
                on: join.on(),
                filter: join.filter().as_ref(),
                projection: None,
            });
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return Some(Self {
                left: join.left(),
                right: join.right(),
                join_type: *join.join_type(),
                null_equality: NullEquality::NullEqualsNothing,
                is_null_aware: false,
                reads_left_first: true,
                on: &[],
                filter: join.filter(),
                projection: join.projection().as_deref(),
            });
        }
        let join = plan.downcast_ref::<CrossJoinExec>()?;
        Some(Self {
            left: join.left(),
            right: join.right(),
            join_type: JoinType::Inner,
            null_equality: NullEquality::NullEqualsNothing,
            is_null_aware: false,
            reads_left_first: true,
            on: &[],
            filter: None,
            projection: None,
        })
    }

    pub(crate) fn input(&self, side: Side) -> &'a Arc<dyn ExecutionPlan> {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    /// Whether rows of `side` that match nothing have no part in the result.
    pub(crate) fn needs_match(&self, side: Side) -> bool {
        let (left, right) = self.join_type.on_lr_is_preserved();
        match side {
            Side::Left => left,
            Side::Right => right,
        }
    }

    /// Whether the result is made of rows of `side`, so that dropping some of these by their values
    /// is the same as dropping rows of the result by theirs.
    pub(crate) fn returns_rows_of(&self, side: Side) -> bool {
        use JoinType::*;
        match self.join_type {
            Inner => true,
            Left | LeftSemi | LeftAnti | LeftMark => side == Side::Left,
            Right | RightSemi | RightAnti | RightMark => side == Side::Right,
            Full => false,
        }
    }

    /// The column of `side` that column `output` of the result is.
    pub(crate) fn input_column(&self, side: Side, output: usize) -> Option<Expr> {
        let joined = match self.projection {
            None => output,
            Some(projection) => *projection.get(output)?,
        };
        // Before its own projection a join returns the left columns, unless it is a semi, anti or
        // mark join of the right side, then the right ones, and for mark joins the mark.
        let left_columns = match self.join_type {
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => 0,
            _ => self.left.schema().fields().len(),
        };
        let index = match side {
            Side::Left => Some(joined).filter(|index| *index < left_columns),
            Side::Right => joined.checked_sub(left_columns),
        };
        column(&self.input(side).schema(), index?)
    }

    /// `expr`, over one side, in terms of the other, by the equality of the join's keys. Only where
    /// equal keys give equal values: -0.0 equals 0.0, and its text does not.
    pub(crate) fn across(&self, expr: &Expr, from: Side) -> Option<Expr> {
        if !tells_equal_values(expr, &self.input(from).schema()) {
            return None;
        }
        self.replaced(expr, from)
    }

    fn replaced(&self, expr: &Expr, from: Side) -> Option<Expr> {
        let equal = self.on.iter().find_map(|pair| {
            let (here, there) = self.sides(pair, from);
            (here == expr && self.have_one_type(here, there, from)).then(|| Arc::clone(there))
        });
        if equal.is_some() || expr.is::<Column>() {
            return equal;
        }
        let children = expr.children().into_iter();
        let children: Option<Vec<_>> = children.map(|child| self.replaced(child, from)).collect();
        Arc::clone(expr).with_new_children(children?).ok()
    }

    /// What holds for each row of `consumer` that finds a match, and the match. First the keys of the
    /// join, which are equal, then comparisons of its filter.
    pub(crate) fn conditions(&self, consumer: Side) -> Vec<Condition> {
        let equal = self.on.iter().filter_map(|pair| {
            let (consumed, produced) = self.sides(pair, consumer);
            self.have_one_type(consumed, produced, consumer)
                .then(|| Condition {
                    consumer: Arc::clone(consumed),
                    producer: Arc::clone(produced),
                    comparison: Comparison::Equal,
                })
        });
        let compared = self.filter.into_iter().flat_map(|filter| {
            let conjuncts = split_conjunction(filter.expression()).into_iter();
            conjuncts.filter_map(|conjunct| self.comparison(filter, conjunct, consumer))
        });
        equal.chain(compared).collect()
    }

    /// The number of keys.
    pub(crate) fn keys(&self) -> usize {
        self.on.len()
    }

    fn sides<'b>(&self, (left, right): &'b (Expr, Expr), first: Side) -> (&'b Expr, &'b Expr) {
        match first {
            Side::Left => (left, right),
            Side::Right => (right, left),
        }
    }

    /// Whether equal values of both have equal representations.
    fn have_one_type(&self, here: &Expr, there: &Expr, side: Side) -> bool {
        let here = here.data_type(&self.input(side).schema());
        let there = there.data_type(&self.input(side.other()).schema());
        matches!((here, there), (Ok(here), Ok(there)) if here == there)
    }

    /// `conjunct` as a comparison of the two sides, other than by `=`.
    fn comparison(
        &self,
        filter: &JoinFilter,
        conjunct: &Expr,
        consumer: Side,
    ) -> Option<Condition> {
        let binary = conjunct.downcast_ref::<BinaryExpr>()?;
        let comparison = Comparison::of(binary.op()).filter(|c| *c != Comparison::Equal)?;
        let schema = filter.schema();
        let has_one_type =
            binary.left().data_type(schema).ok()? == binary.right().data_type(schema).ok()?;
        let over = |expr: &Expr, side: Side| {
            let over = rewrite_columns(expr, &|index| {
                let source = filter.column_indices().get(index)?;
                let is_there = source.side
                    == match side {
                        Side::Left => JoinSide::Left,
                        Side::Right => JoinSide::Right,
                    };
                let index = Some(source.index).filter(|_| is_there)?;
                column(&self.input(side).schema(), index)
            });
            over.filter(|expr| !collect_columns(expr).is_empty())
        };
        let of = |consumed, produced, comparison| {
            Some(Condition {
                consumer: over(consumed, consumer)?,
                producer: over(produced, consumer.other())?,
                comparison,
            })
        };
        let (left, right) = (binary.left(), binary.right());
        of(left, right, comparison)
            .or_else(|| of(right, left, comparison.mirrored()))
            .filter(|_| has_one_type)
    }
}

/// Column `index` of `schema`, if there is one.
pub(crate) fn column(schema: &Schema, index: usize) -> Option<Expr> {
    let field = schema.fields().get(index)?;
    Some(Arc::new(Column::new(field.name(), index)))
}

/// Whether `expr` has equal values wherever its columns have. Those of floating point are compared as
/// keys by a rule of their own; behind an expression, -0.0 and 0.0 need not be equal.
pub(crate) fn tells_equal_values(expr: &Expr, schema: &Schema) -> bool {
    let has_float = |column: &Column| {
        let field = schema.fields().get(column.index());
        field.is_none_or(|field| contains_float(field.data_type()))
    };
    expr.is::<Column>() || !collect_columns(expr).iter().any(has_float)
}

fn contains_float(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => contains_float(values),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            contains_float(field.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| contains_float(field.data_type())),
        other => other.is_floating(),
    }
}

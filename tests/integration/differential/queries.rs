//! Random queries over the tables of a schema, as trees that shrink. `sql.rs` spells them.
//!
//! Every relation inside a query has the columns `id, x, s, q0, q1, ..`, where `q0` and so on began
//! as the key columns of a table and have kept their family of types. So relations can be combined
//! at will.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// A whole query.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) from: Relation,
    pub(super) filter: Option<Predicate>,
    pub(super) output: Output,
    /// Whether the two sides of a join have columns of different names.
    pub(super) renamed: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Output {
    Rows,
    Keys,
    Count,
    Groups,
    Extremes,
    Limit,
}

#[derive(Debug, Clone)]
pub(super) enum Relation {
    Table(usize),
    Filter(Box<Self>, Predicate),
    /// The first key and the others replaced by expressions over them.
    Project(Box<Self>, [KeyExpr; 2]),
    Union(Box<Self>, Box<Self>),
    /// The keys that both have, or that only the first one has.
    SetOperation(&'static str, Box<Self>, Box<Self>),
    Distinct(Box<Self>),
    /// The first rows in the order of all columns: a limit with one answer.
    Top(Box<Self>, u8),
    /// From the rows of the first one on, over and over to rows of the second one with equal keys.
    Recursive(Box<Self>, Box<Self>, u8),
    Join(Box<Join>),
}

/// `l` joined with `r`.
#[derive(Debug, Clone)]
pub(super) struct Join {
    pub(super) kind: JoinKind,
    pub(super) left: Relation,
    pub(super) right: Relation,
    pub(super) keys: Vec<JoinKey>,
    pub(super) condition: Option<Condition>,
    pub(super) filter: Option<Predicate>,
    /// From which side each output column comes, where both are visible.
    pub(super) from_right: [bool; 4],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    LeftSemi,
    RightSemi,
    LeftAnti,
    RightAnti,
    /// Tables in a list, the condition in the WHERE clause.
    Comma,
    In,
    NotIn,
    Exists,
    NotExists,
    /// A subquery below OR becomes a mark join.
    InOr,
    NotInOr,
    ExistsOr,
}

#[derive(Debug, Clone)]
pub(super) struct JoinKey {
    pub(super) columns: [u8; 2],
    pub(super) exprs: [KeyExpr; 2],
    pub(super) null_equals_null: bool,
}

/// A condition of a join besides its keys.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    SmallerX,
    OtherId,
    EitherKey(u8),
    Left(Predicate),
    Right(Predicate),
}

/// An expression over a key that stays in its family of types, except for `Text`.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyExpr {
    Bare,
    /// A cast to a type with more values.
    Widen,
    /// Something like a successor.
    Shift,
    /// Several values become one.
    Fold,
    Coalesce(u8),
    NullIf(u8),
    Case(u8),
    Text,
}

/// Columns are numbers of key columns, and values are numbers of values of a column.
#[derive(Debug, Clone)]
pub(super) enum Predicate {
    Compare(u8, &'static str, u8),
    In {
        column: u8,
        values: Vec<u8>,
        null: bool,
        not: bool,
    },
    Between {
        column: u8,
        low: u8,
        high: u8,
        not: bool,
    },
    Like(u8, &'static str),
    Is(u8, &'static str),
    IsDistinct(u8, &'static str, u8),
    Expr(u8, KeyExpr, &'static str, u8),
    Columns(u8, u8),
    SubqueryMax(u8),
    Divide(u8),
    Volatile,
    /// On columns of the files alone.
    File(&'static str),
    /// On a key and a column of the files within one expression.
    Mixed(u8, u8),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
}

/// Any query.
pub(super) fn query() -> impl Strategy<Value = Query> {
    use Output::*;
    let from = prop_oneof![
        2 => (0..2_usize).prop_map(Relation::Table),
        8 => join(facts(2), dimensions(1)),
        2 => facts(2),
    ];
    let output = select(&[Rows, Rows, Rows, Keys, Count, Groups, Extremes, Limit][..]);
    (
        from,
        option::weighted(0.4, predicate()),
        output,
        proptest::bool::weighted(0.8),
    )
        .prop_map(|(from, filter, output, renamed)| Query {
            from,
            filter,
            output,
            renamed,
        })
}

/// Relations that contain partitioned tables.
fn facts(depth: u32) -> BoxedStrategy<Relation> {
    let table = prop_oneof![4 => Just(0), 1 => Just(1)].prop_map(Relation::Table);
    let Some(below) = depth.checked_sub(1) else {
        return table.boxed();
    };
    prop_oneof![
        16 => table,
        4 => shaped(facts(below)),
        2 => pair(facts(below), prop_oneof![2 => facts(below), 1 => dimensions(0)])
            .prop_map(|(a, b)| Relation::Union(a, b)),
        1 => (set_operator(), pair(facts(below), prop_oneof![facts(below), dimensions(0)]))
            .prop_map(|(operator, (a, b))| Relation::SetOperation(operator, a, b)),
        1 => (pair(dimensions(0), facts(below)), 0..3_u8)
            .prop_map(|((first, next), key)| Relation::Recursive(first, next, key)),
        6 => join(facts(below), dimensions(below)),
    ]
    .boxed()
}

/// Relations that mostly have few rows.
fn dimensions(depth: u32) -> BoxedStrategy<Relation> {
    let table = prop_oneof![3 => Just(2), 2 => Just(3)]
        .prop_map(Relation::Table)
        .boxed();
    let filtered = (table.clone(), predicate())
        .prop_map(|(table, filter)| Relation::Filter(Box::new(table), filter));
    let Some(below) = depth.checked_sub(1) else {
        return prop_oneof![table, filtered].boxed();
    };
    prop_oneof![
        3 => table,
        3 => filtered,
        2 => shaped(dimensions(below)),
        1 => facts(below),
        1 => join(facts(below), dimensions(below)),
    ]
    .boxed()
}

fn shaped(of: BoxedStrategy<Relation>) -> BoxedStrategy<Relation> {
    let of = of.prop_map(Box::new).boxed();
    prop_oneof![
        4 => (of.clone(), predicate()).prop_map(|(r, p)| Relation::Filter(r, p)),
        3 => (of.clone(), [key_expr(), key_expr()]).prop_map(|(r, e)| Relation::Project(r, e)),
        1 => of.clone().prop_map(Relation::Distinct),
        1 => (of, 0..8_u8).prop_map(|(r, n)| Relation::Top(r, n)),
    ]
    .boxed()
}

fn pair(
    one: impl Strategy<Value = Relation>,
    other: impl Strategy<Value = Relation>,
) -> impl Strategy<Value = (Box<Relation>, Box<Relation>)> {
    (one.prop_map(Box::new), other.prop_map(Box::new))
}

fn set_operator() -> impl Strategy<Value = &'static str> {
    select(&["INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"][..])
}

/// A join of the two in either order.
fn join(one: BoxedStrategy<Relation>, other: BoxedStrategy<Relation>) -> BoxedStrategy<Relation> {
    use JoinKind::*;
    let kinds = [
        Inner, Inner, Inner, Left, Right, Full, LeftSemi, RightSemi, LeftAnti, RightAnti, Comma,
        In, NotIn, Exists, NotExists, InOr, NotInOr, ExistsOr,
    ];
    let columns = prop_oneof![
        5 => (0..3_u8).prop_map(|column| [column; 2]),
        1 => [0..3_u8, 0..3_u8]
    ];
    let expr = || prop_oneof![12 => Just(KeyExpr::Bare), 3 => key_expr(), 1 => Just(KeyExpr::Text)];
    let key = (columns, [expr(), expr()], proptest::bool::weighted(0.2)).prop_map(
        |(columns, exprs, null_equals_null)| JoinKey {
            columns,
            exprs,
            null_equals_null,
        },
    );
    let condition = prop_oneof![
        Just(Condition::SmallerX),
        Just(Condition::OtherId),
        (0..3_u8).prop_map(Condition::EitherKey),
        predicate().prop_map(Condition::Left),
        predicate().prop_map(Condition::Right),
    ];
    (
        select(kinds.to_vec()),
        [one, other],
        any::<bool>(),
        vec(key, 1..=3),
        option::weighted(0.25, condition),
        option::weighted(0.25, predicate()),
        any::<[bool; 4]>(),
    )
        .prop_map(
            |(kind, [one, other], swapped, keys, condition, filter, from_right)| {
                let (left, right) = if swapped { (other, one) } else { (one, other) };
                Relation::Join(Box::new(Join {
                    kind,
                    left,
                    right,
                    keys,
                    condition,
                    filter,
                    from_right,
                }))
            },
        )
        .boxed()
}

fn key_expr() -> impl Strategy<Value = KeyExpr> + Clone {
    prop_oneof![
        3 => Just(KeyExpr::Bare),
        1 => Just(KeyExpr::Widen),
        1 => Just(KeyExpr::Shift),
        1 => Just(KeyExpr::Fold),
        1 => value().prop_map(KeyExpr::Coalesce),
        1 => value().prop_map(KeyExpr::NullIf),
        1 => value().prop_map(KeyExpr::Case),
    ]
}

/// The number of a value; one of them is not in the tables.
fn value() -> impl Strategy<Value = u8> + Clone {
    0..5_u8
}

/// Any filter.
pub(super) fn predicate() -> BoxedStrategy<Predicate> {
    use Predicate::*;
    let column = || 0..3_u8;
    let operator = || select(&["=", "=", "<>", "<", "<=", ">", ">="][..]);
    let pattern = select(&["%", "a%", "%1%", "_", "%/%", "2024%", "-%", "x=_", "%\\%%"][..]);
    let file = select(
        &[
            "x = 1",
            "x > 1",
            "s = 'k'",
            "s IS NULL",
            "x IN (0, 3)",
            "id % 2 = 0",
        ][..],
    );
    let is = select(&["NULL", "NOT NULL"][..]);
    let distinct = select(&["DISTINCT", "NOT DISTINCT"][..]);
    let within = (
        column(),
        vec(value(), 1..5),
        proptest::bool::weighted(0.2),
        any::<bool>(),
    );
    let between = (column(), value(), value(), any::<bool>());
    let leaf = prop_oneof![
        4 => (column(), operator(), value()).prop_map(|(c, o, v)| Compare(c, o, v)),
        3 => within.prop_map(|(column, values, null, not)| In { column, values, null, not }),
        2 => between.prop_map(|(column, low, high, not)| Between { column, low, high, not }),
        2 => (column(), pattern).prop_map(|(c, pattern)| Like(c, pattern)),
        2 => (column(), is).prop_map(|(c, what)| Is(c, what)),
        1 => (column(), distinct, value()).prop_map(|(c, what, v)| IsDistinct(c, what, v)),
        2 => (column(), key_expr(), operator(), value()).prop_map(|(c, e, o, v)| Expr(c, e, o, v)),
        1 => (column(), column()).prop_map(|(a, b)| Columns(a, b)),
        1 => column().prop_map(SubqueryMax),
        1 => column().prop_map(Divide),
        1 => Just(Volatile),
        6 => file.prop_map(File),
        1 => (column(), value()).prop_map(|(c, v)| Mixed(c, v)),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        let boxed = inner.prop_map(Box::new).boxed();
        prop_oneof![
            2 => (boxed.clone(), boxed.clone()).prop_map(|(a, b)| And(a, b)),
            3 => (boxed.clone(), boxed.clone()).prop_map(|(a, b)| Or(a, b)),
            1 => boxed.prop_map(Not),
        ]
    })
    .boxed()
}

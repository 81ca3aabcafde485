//! Random queries over the tables of a schema, as trees that shrink and that are rendered as SQL.
//!
//! Every relation inside a query has the columns `id, x, s, q0, q1, ..`, where `q0` and so on began
//! as the partition columns `p0` and so on and have kept their family of types. So relations can be
//! combined at will.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::schema::{KeyType, TABLES};

/// A whole query.
#[derive(Debug, Clone)]
pub(super) struct Query {
    from: Relation,
    filter: Option<Predicate>,
    output: Output,
}

#[derive(Debug, Clone, Copy)]
enum Output {
    Rows,
    Keys,
    Count,
    Groups,
    Extremes,
}

#[derive(Debug, Clone)]
enum Relation {
    Table(usize),
    Filter(Box<Self>, Predicate),
    /// Each `q` replaced by an expression over it.
    Project(Box<Self>, KeyExpr, KeyExpr),
    Union(Box<Self>, Box<Self>),
    Distinct(Box<Self>),
    /// The first rows in the order of all columns: a limit with one answer.
    Top(Box<Self>, u8),
    Join(Box<Join>),
}

/// `l` joined with `r`.
#[derive(Debug, Clone)]
struct Join {
    kind: JoinKind,
    left: Relation,
    right: Relation,
    keys: Vec<JoinKey>,
    condition: Option<Condition>,
    filter: Option<Predicate>,
    /// From which side each output column comes, where both are visible.
    from_right: [bool; 4],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    LeftSemi,
    RightSemi,
    LeftAnti,
    RightAnti,
    Comma,
    In,
    NotIn,
    Exists,
    NotExists,
    InOr,
    NotInOr,
    ExistsOr,
}

#[derive(Debug, Clone)]
struct JoinKey {
    columns: [u8; 2],
    exprs: [KeyExpr; 2],
    null_equals_null: bool,
}

/// A condition of a join besides its keys.
#[derive(Debug, Clone)]
enum Condition {
    SmallerX,
    OtherId,
    EitherKey(u8),
    Left(Predicate),
    Right(Predicate),
}

/// An expression over a key that stays in its family of types, except for `Text`.
#[derive(Debug, Clone, Copy)]
enum KeyExpr {
    Bare,
    Widen,
    Shift,
    Fold,
    Coalesce(u8),
    NullIf(u8),
    Case(u8),
    Text,
}

#[derive(Debug, Clone)]
enum Predicate {
    Compare(u8, &'static str, u8),
    In(u8, Vec<u8>, bool, bool),
    Between(u8, u8, u8, bool),
    Like(u8, &'static str),
    IsNull(u8, bool),
    IsDistinct(u8, u8, bool),
    Expr(u8, KeyExpr, &'static str, u8),
    Columns(u8, u8),
    SubqueryMax(u8),
    Divide(u8),
    Volatile,
    File(&'static str),
    Mixed(u8, u8),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
}

// ---- strategies ----

/// Any query.
pub(super) fn query() -> impl Strategy<Value = Query> {
    let from = prop_oneof![
        2 => (0..2_usize).prop_map(Relation::Table),
        8 => join(facts(2), dimensions(1)),
        2 => facts(2),
    ];
    let output = select(
        &[
            Output::Rows,
            Output::Rows,
            Output::Rows,
            Output::Keys,
            Output::Count,
            Output::Groups,
            Output::Extremes,
        ][..],
    );
    (from, option::weighted(0.4, predicate()), output).prop_map(|(from, filter, output)| Query {
        from,
        filter,
        output,
    })
}

/// Relations that contain partitioned tables.
fn facts(depth: u32) -> BoxedStrategy<Relation> {
    let table = prop_oneof![4 => Just(0), 1 => Just(1)].prop_map(Relation::Table);
    let Some(below) = depth.checked_sub(1) else {
        return table.boxed();
    };
    prop_oneof![
        8 => table,
        2 => shaped(facts(below)),
        1 => (facts(below), prop_oneof![2 => facts(below), 1 => dimensions(0)])
            .prop_map(|(a, b)| Relation::Union(Box::new(a), Box::new(b))),
        3 => join(facts(below), dimensions(below)),
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
    prop_oneof![
        4 => (of.clone(), predicate()).prop_map(|(r, p)| Relation::Filter(Box::new(r), p)),
        3 => (of.clone(), key_expr(), key_expr())
            .prop_map(|(r, a, b)| Relation::Project(Box::new(r), a, b)),
        1 => of.clone().prop_map(|r| Relation::Distinct(Box::new(r))),
        1 => (of, 0..8_u8).prop_map(|(r, n)| Relation::Top(Box::new(r), n)),
    ]
    .boxed()
}

/// A join of the two in either order.
fn join(one: BoxedStrategy<Relation>, other: BoxedStrategy<Relation>) -> BoxedStrategy<Relation> {
    use JoinKind::*;
    let kinds = [
        Inner, Inner, Left, Right, Full, LeftSemi, RightSemi, LeftAnti, RightAnti, Comma, In,
        NotIn, Exists, NotExists, InOr, NotInOr, ExistsOr,
    ];
    let key = (
        prop_oneof![
            5 => (0..3_u8).prop_map(|column| [column; 2]),
            1 => [0..3_u8, 0..3_u8]
        ],
        [join_key_expr(), join_key_expr()],
        prop_oneof![4 => Just(false), 1 => Just(true)],
    );
    let key = key.prop_map(|(columns, exprs, null_equals_null)| JoinKey {
        columns,
        exprs,
        null_equals_null,
    });
    let condition = prop_oneof![
        Just(Condition::SmallerX),
        Just(Condition::OtherId),
        any::<u8>().prop_map(Condition::EitherKey),
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
        1 => any::<u8>().prop_map(KeyExpr::Coalesce),
        1 => any::<u8>().prop_map(KeyExpr::NullIf),
        1 => any::<u8>().prop_map(KeyExpr::Case),
    ]
}

fn join_key_expr() -> impl Strategy<Value = KeyExpr> + Clone {
    prop_oneof![12 => Just(KeyExpr::Bare), 3 => key_expr(), 1 => Just(KeyExpr::Text)]
}

fn predicate() -> BoxedStrategy<Predicate> {
    use Predicate::*;
    let column = 0..3_u8;
    let operator = select(&["=", "=", "<>", "<", "<=", ">", ">="][..]);
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
    let value = any::<u8>;
    let leaf = prop_oneof![
        4 => (column.clone(), operator.clone(), value()).prop_map(|(c, o, v)| Compare(c, o, v)),
        3 => (column.clone(), vec(value(), 1..5), proptest::bool::weighted(0.2), any::<bool>())
            .prop_map(|(c, values, with_null, not)| In(c, values, with_null, not)),
        2 => (column.clone(), value(), value(), any::<bool>())
            .prop_map(|(c, a, b, not)| Between(c, a, b, not)),
        2 => (column.clone(), pattern).prop_map(|(c, pattern)| Like(c, pattern)),
        2 => (column.clone(), any::<bool>()).prop_map(|(c, not)| IsNull(c, not)),
        1 => (column.clone(), value(), any::<bool>()).prop_map(|(c, v, not)| IsDistinct(c, v, not)),
        2 => (column.clone(), key_expr(), operator, value())
            .prop_map(|(c, expr, o, v)| Expr(c, expr, o, v)),
        1 => (column.clone(), column.clone()).prop_map(|(a, b)| Columns(a, b)),
        1 => column.clone().prop_map(SubqueryMax),
        1 => column.clone().prop_map(Divide),
        1 => Just(Volatile),
        6 => file.prop_map(File),
        1 => (column, value()).prop_map(|(c, v)| Mixed(c, v)),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| And(Box::new(a), Box::new(b))),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| Or(Box::new(a), Box::new(b))),
            1 => inner.prop_map(|p| Not(Box::new(p))),
        ]
    })
    .boxed()
}

// ---- SQL ----

/// The key columns in SQL.
#[derive(Clone, Copy)]
struct Types<'a>(&'a [KeyType]);

impl Types<'_> {
    /// Column numbers are taken modulo the number of columns.
    fn index(self, column: u8) -> usize {
        usize::from(column) % self.0.len()
    }

    fn of(self, column: u8) -> KeyType {
        self.0[self.index(column)]
    }

    fn name(self, alias: &str, column: u8) -> String {
        format!("{alias}.q{}", self.index(column))
    }

    fn columns(self) -> impl Iterator<Item = String> {
        let keys = (0..self.0.len()).map(|i| format!("q{i}"));
        ["id", "x", "s"].map(str::to_owned).into_iter().chain(keys)
    }
}

impl Query {
    /// The query in SQL, for tables whose key columns have these types.
    pub(super) fn sql(&self, types: &[KeyType]) -> String {
        let types = Types(types);
        let keys = || {
            let keys: Vec<_> = (0..types.0.len()).map(|i| format!("t.q{i}")).collect();
            keys.join(", ")
        };
        let select = match self.output {
            Output::Rows => "*".to_owned(),
            Output::Keys => keys(),
            Output::Count => "count(*)".to_owned(),
            Output::Groups => format!("{}, count(*), min(t.id), max(t.s)", keys()),
            Output::Extremes => {
                "min(t.q0), max(t.q0), count(t.q0), count(*), count(DISTINCT t.x)".to_owned()
            }
        };
        let filter = self
            .filter
            .as_ref()
            .map(|p| format!(" WHERE {}", p.sql("t", types)));
        let group = match self.output {
            Output::Groups => format!(" GROUP BY {}", keys()),
            _ => String::new(),
        };
        let from = self.from.sql(types);
        format!(
            "SELECT {select} FROM ({from}) t{}{group}",
            filter.unwrap_or_default()
        )
    }

    /// Whether the answer may be an error depending on which rows are looked at in which order.
    pub(super) fn is_fallible(sql: &str) -> bool {
        sql.contains(" / ")
    }
}

impl Relation {
    fn sql(&self, types: Types<'_>) -> String {
        let all = types.columns().collect::<Vec<_>>().join(", ");
        match self {
            Self::Table(table) => {
                let keys: String = (0..types.0.len())
                    .map(|i| format!(", p{i} AS q{i}"))
                    .collect();
                format!("SELECT id, x, s{keys} FROM {}", TABLES[*table])
            }
            Self::Filter(of, predicate) => {
                format!(
                    "SELECT * FROM ({}) t WHERE {}",
                    of.sql(types),
                    predicate.sql("t", types)
                )
            }
            Self::Project(of, first, others) => {
                let keys: String = types
                    .0
                    .iter()
                    .enumerate()
                    .map(|(i, key_type)| {
                        let expr = if i == 0 { first } else { others };
                        format!(", {} AS q{i}", expr.sql(&format!("t.q{i}"), *key_type))
                    })
                    .collect();
                format!("SELECT id, x, s{keys} FROM ({}) t", of.sql(types))
            }
            Self::Union(one, other) => {
                format!(
                    "SELECT * FROM ({}) a UNION ALL ({})",
                    one.sql(types),
                    other.sql(types)
                )
            }
            Self::Distinct(of) => format!("SELECT DISTINCT {all} FROM ({}) t", of.sql(types)),
            Self::Top(of, rows) => {
                format!(
                    "SELECT * FROM ({}) t ORDER BY {all} LIMIT {rows}",
                    of.sql(types)
                )
            }
            Self::Join(join) => join.sql(types),
        }
    }
}

impl Join {
    fn sql(&self, types: Types<'_>) -> String {
        let (left, right) = (self.left.sql(types), self.right.sql(types));
        let mut keys: Vec<_> = self.keys.iter().map(|key| key.sql(types)).collect();
        let condition = self
            .condition
            .as_ref()
            .map(|condition| condition.sql(types));
        let first_key = self.keys[0].sides(types);
        let alternative = self
            .filter
            .as_ref()
            .map_or_else(|| "l.x = 2".to_owned(), |p| p.sql("l", types));
        let mut in_subquery = || {
            keys.remove(0);
            let correlated: Vec<_> = keys.iter().cloned().chain(condition.clone()).collect();
            let correlated = match correlated.join(" AND ") {
                all if all.is_empty() => all,
                all => format!(" WHERE {all}"),
            };
            let [outer, inner] = &first_key;
            format!("{outer} IN (SELECT {inner} FROM ({right}) r{correlated})")
        };
        let joined_by = |keys: &[String]| {
            let all: Vec<_> = keys.iter().cloned().chain(condition.clone()).collect();
            all.join(" AND ")
        };
        let from_left = format!("SELECT l.* FROM ({left}) l WHERE");
        let exists = |keys: &[String]| {
            format!(
                "EXISTS (SELECT 1 FROM ({right}) r WHERE {})",
                joined_by(keys)
            )
        };
        let keyword = match self.kind {
            JoinKind::In => return format!("{from_left} {}", in_subquery()),
            JoinKind::NotIn => return format!("{from_left} NOT {}", in_subquery()),
            JoinKind::InOr => return format!("{from_left} ({} OR {alternative})", in_subquery()),
            JoinKind::NotInOr => {
                return format!("{from_left} (NOT {} OR {alternative})", in_subquery());
            }
            JoinKind::Exists => return format!("{from_left} {}", exists(&keys)),
            JoinKind::NotExists => return format!("{from_left} NOT {}", exists(&keys)),
            JoinKind::ExistsOr => {
                return format!("{from_left} ({} OR {alternative})", exists(&keys));
            }
            JoinKind::Comma | JoinKind::Inner => "INNER",
            JoinKind::Left => "LEFT",
            JoinKind::Right => "RIGHT",
            JoinKind::Full => "FULL",
            JoinKind::LeftSemi => "LEFT SEMI",
            JoinKind::RightSemi => "RIGHT SEMI",
            JoinKind::LeftAnti => "LEFT ANTI",
            JoinKind::RightAnti => "RIGHT ANTI",
        };
        let columns: Vec<_> = types
            .columns()
            .enumerate()
            .map(|(i, column)| {
                let from_right = match self.kind {
                    JoinKind::LeftSemi | JoinKind::LeftAnti => false,
                    JoinKind::RightSemi | JoinKind::RightAnti => true,
                    _ => self.from_right[i.saturating_sub(2)],
                };
                format!(
                    "{}.{column} AS {column}",
                    if from_right { "r" } else { "l" }
                )
            })
            .collect();
        let visible = match self.kind {
            JoinKind::RightSemi | JoinKind::RightAnti => "r",
            _ => "l",
        };
        let filter = self.filter.as_ref().map(|p| p.sql(visible, types));
        let (select, on) = (columns.join(", "), joined_by(&keys));
        if self.kind == JoinKind::Comma {
            let filter = filter
                .map(|filter| format!(" AND {filter}"))
                .unwrap_or_default();
            return format!("SELECT {select} FROM ({left}) l, ({right}) r WHERE {on}{filter}");
        }
        let filter = filter
            .map(|filter| format!(" WHERE {filter}"))
            .unwrap_or_default();
        format!("SELECT {select} FROM ({left}) l {keyword} JOIN ({right}) r ON {on}{filter}")
    }
}

impl JoinKey {
    /// The two sides, as text where their types have nothing in common.
    fn sides(&self, types: Types<'_>) -> [String; 2] {
        let [left, right] = self.columns.map(|column| types.of(column));
        let as_text = !left.compares_with(right)
            || self.exprs.iter().any(|expr| matches!(expr, KeyExpr::Text));
        [0, 1].map(|side| {
            let column = self.columns[side];
            let name = types.name(["l", "r"][side], column);
            let expr = self.exprs[side].sql(&name, types.of(column));
            if as_text {
                format!("CAST({expr} AS VARCHAR)")
            } else {
                expr
            }
        })
    }

    fn sql(&self, types: Types<'_>) -> String {
        let [left, right] = self.sides(types);
        let operator = if self.null_equals_null {
            "IS NOT DISTINCT FROM"
        } else {
            "="
        };
        format!("{left} {operator} {right}")
    }
}

impl Condition {
    fn sql(&self, types: Types<'_>) -> String {
        match self {
            Self::SmallerX => "l.x < r.x".to_owned(),
            Self::OtherId => "l.id <> r.id".to_owned(),
            Self::EitherKey(column) => {
                let [left, right] = ["l", "r"].map(|alias| types.name(alias, *column));
                format!("({left} = {right} OR l.x = r.x)")
            }
            Self::Left(predicate) => predicate.sql("l", types),
            Self::Right(predicate) => predicate.sql("r", types),
        }
    }
}

impl KeyExpr {
    fn sql(self, of: &str, key_type: KeyType) -> String {
        match (self, key_type) {
            (Self::Bare, _) => of.to_owned(),
            (Self::Widen, KeyType::Int) => format!("CAST({of} AS BIGINT)"),
            (Self::Widen, KeyType::BigInt) => format!("CAST({of} AS DECIMAL(24, 2))"),
            (Self::Widen, KeyType::Decimal) => format!("CAST({of} AS DECIMAL(24, 3))"),
            (Self::Widen, KeyType::Date) => format!("CAST({of} AS TIMESTAMP)"),
            (Self::Widen, KeyType::Text) => format!("CAST({of} AS VARCHAR)"),
            (Self::Widen, KeyType::Double) => format!("CAST({of} AS DOUBLE)"),
            (Self::Widen, KeyType::Boolean) => format!("({of} = TRUE)"),
            (Self::Shift, KeyType::Text) => format!("substr({of}, 1, 1)"),
            (Self::Shift, KeyType::Date) => format!("({of} + INTERVAL '1' DAY)"),
            (Self::Shift, KeyType::Boolean) => format!("(NOT {of})"),
            (Self::Shift, _) => format!("({of} + 1)"),
            (Self::Fold, KeyType::Text) => format!("upper({of})"),
            (Self::Fold, KeyType::Date) => format!("date_trunc('month', {of})"),
            (Self::Fold, KeyType::Boolean) => format!("({of} IS TRUE)"),
            (Self::Fold, _) => format!("abs({of})"),
            (Self::Coalesce(v), _) => format!("coalesce({of}, {})", key_type.literal(v)),
            (Self::NullIf(v), _) => format!("nullif({of}, {})", key_type.literal(v)),
            (Self::Case(v), _) => {
                format!("CASE WHEN {of} = {} THEN {of} END", key_type.literal(v))
            }
            (Self::Text, _) => format!("CAST({of} AS VARCHAR)"),
        }
    }
}

impl Predicate {
    /// The predicate over the relation `alias`, in parentheses where that matters.
    fn sql(&self, alias: &str, types: Types<'_>) -> String {
        let name = |column: &u8| types.name(alias, *column);
        let literal = |column: &u8, value: &u8| types.of(*column).literal(*value);
        let not = |not: &bool| if *not { "NOT " } else { "" };
        match self {
            Self::Compare(c, operator, v) => format!("{} {operator} {}", name(c), literal(c, v)),
            Self::In(c, values, with_null, negated) => {
                let null = with_null.then(|| "NULL".to_owned());
                let values: Vec<_> = values.iter().map(|v| literal(c, v)).chain(null).collect();
                format!("{} {}IN ({})", name(c), not(negated), values.join(", "))
            }
            Self::Between(c, a, b, negated) => {
                let (a, b) = (literal(c, a), literal(c, b));
                format!("({} {}BETWEEN {a} AND {b})", name(c), not(negated))
            }
            Self::Like(c, pattern) => format!("CAST({} AS VARCHAR) LIKE '{pattern}'", name(c)),
            Self::IsNull(c, negated) => format!("{} IS {}NULL", name(c), not(negated)),
            Self::IsDistinct(c, v, negated) => {
                format!(
                    "{} IS {}DISTINCT FROM {}",
                    name(c),
                    not(negated),
                    literal(c, v)
                )
            }
            Self::Expr(c, expr, operator, v) => {
                let expr = expr.sql(&name(c), types.of(*c));
                format!("{expr} {operator} {}", literal(c, v))
            }
            Self::Columns(a, b) if types.of(*a).compares_with(types.of(*b)) => {
                format!("{} <= {}", name(a), name(b))
            }
            Self::Columns(a, b) => format!(
                "CAST({} AS VARCHAR) > CAST({} AS VARCHAR)",
                name(a),
                name(b)
            ),
            Self::SubqueryMax(c) => {
                format!("{} = (SELECT max(p{}) FROM d)", name(c), types.index(*c))
            }
            Self::Divide(c) if types.of(*c) == KeyType::Int => format!("10 / {} > 2", name(c)),
            Self::Divide(c) => format!("length(CAST({} AS VARCHAR)) < 4", name(c)),
            Self::Volatile => format!("random() + {alias}.x < 2"),
            Self::File(predicate) => format!("{alias}.{predicate}"),
            Self::Mixed(c, v) => format!(
                "CASE WHEN {0} = {1} THEN {alias}.x > 1 ELSE {0} IS NULL END",
                name(c),
                literal(c, v)
            ),
            Self::And(a, b) => format!("({} AND {})", a.sql(alias, types), b.sql(alias, types)),
            Self::Or(a, b) => format!("({} OR {})", a.sql(alias, types), b.sql(alias, types)),
            Self::Not(of) => format!("NOT ({})", of.sql(alias, types)),
        }
    }
}

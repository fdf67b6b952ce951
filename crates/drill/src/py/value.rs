//! Python's values, as far as snippets have them.
use std::cmp::Ordering;
use std::fmt;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Val {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(String),
    /// A list or a tuple; snippets do not tell them apart.
    List(Vec<Val>),
}

impl Val {
    /// What `if` and `assert` think of it.
    pub(crate) fn truth(&self) -> bool {
        match self {
            Self::None => false,
            Self::Bool(b) => *b,
            Self::Int(n) => *n != 0,
            Self::Float(x) => *x != 0.0,
            Self::Str(s) => !s.is_empty(),
            Self::List(items) => !items.is_empty(),
        }
    }

    /// As a whole number, if it is one.
    pub(crate) const fn int(&self) -> Option<i128> {
        match self {
            Self::Bool(b) => Some(*b as i128),
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// As a number with a fraction, if it is a number.
    pub(crate) fn float(&self) -> Option<f64> {
        match self {
            Self::Float(x) => Some(*x),
            other => other.int().map(|n| n as f64),
        }
    }

    /// Equality as in Python: numbers of all kinds compare.
    pub(crate) fn same(&self, other: &Self) -> bool {
        if let (Self::List(a), Self::List(b)) = (self, other) {
            return a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b));
        }
        match (self.int(), other.int()) {
            (Some(a), Some(b)) => a == b,
            _ => match (self.float(), other.float()) {
                (Some(a), Some(b)) => a == b,
                _ => self == other,
            },
        }
    }

    /// Order, where there is one.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Str(a), Self::Str(b)) => Some(a.cmp(b)),
            (Self::List(a), Self::List(b)) => {
                let differing = a.iter().zip(b).find(|(a, b)| !a.same(b));
                differing.map_or_else(|| Some(a.len().cmp(&b.len())), |(a, b)| a.order(b))
            }
            _ => match (self.int(), other.int()) {
                (Some(a), Some(b)) => Some(a.cmp(&b)),
                _ => self.float()?.partial_cmp(&other.float()?),
            },
        }
    }

    /// How many values it is, with those of the lists in it.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::List(items) => items.iter().map(Self::weight).sum::<usize>() + 1,
            _ => 1,
        }
    }

    /// How many lists stand in one another.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::List(items) => items.iter().map(Self::depth).max().unwrap_or(0) + 1,
            _ => 0,
        }
    }

    /// What Python calls the kind.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::List(_) => "list",
        }
    }

    /// As repr() writes it.
    pub(crate) fn repr(&self) -> String {
        match self {
            Self::Str(s) => format!("'{s}'"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Float(x) => write!(f, "{x:?}"),
            Self::Str(s) => f.write_str(s),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, item.repr())?;
                }
                f.write_str("]")
            }
        }
    }
}

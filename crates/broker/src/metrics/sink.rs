//! The form in which metrics leave a broker, family by family: a page of text, or messages of another protocol.
//!
//! A family is written at once, and a sample has a value for each label of its metric.

use std::fmt;

use model::histogram::Counts;

use super::table::Metric;

/// The value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Int(i64),
    Double(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(value) => value.fmt(f),
            Number::Double(value) => value.fmt(f),
        }
    }
}

macro_rules! counts {
    ($($of:ty)*) => {
        $(impl From<$of> for Number {
            /// A count beyond 2^63 is as good as endless.
            fn from(count: $of) -> Number {
                Number::Int(i64::try_from(count).unwrap_or(i64::MAX))
            }
        })*
    };
}

counts!(u8 i32 u64 usize isize i64);

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number::Double(value)
    }
}

pub trait Sink {
    /// All samples of a gauge or counter: the values of its labels, and the value.
    fn family<'a, V: Into<Number>>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = (Vec<&'a str>, V)>,
    );

    /// All samples of a histogram.
    fn histograms<'a>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = (Vec<&'a str>, Counts)>,
    );

    /// A metric without labels.
    fn one(&mut self, metric: &'static Metric, value: impl Into<Number>) {
        self.family(metric, [(vec![], value)]);
    }
}

//! Metrics as OpenTelemetry's protocol carries them: of `MetricsData`, what a person wants to read of it.
//!
//! Reads protobuf by hand, for six messages need no library: each field is a number, a wire type and its bytes. Fields that are
//! not known are passed over. Bytes come from clients: nothing is trusted, and nothing is read twice as long as it is.

/// One value of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) metric: String,
    /// `name=value`, in the order of the client.
    pub(crate) labels: Vec<String>,
    pub(crate) value: Number,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Double(f64),
}

/// The bytes are not protobuf, or not of these messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

enum Field<'a> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
    Other,
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(len).map_err(|_| Malformed)?;
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.first_chunk().ok_or(Malformed)?;
                Field::Fixed(u64::from_le_bytes(*bytes))
            }
            2 => {
                let len = self.varint()?;
                Field::Bytes(self.take(len)?)
            }
            5 => {
                self.take(4)?;
                Field::Other
            }
            _ => return Err(Malformed),
        };
        Ok(Some((tag >> 3, field)))
    }
}

/// Calls `visit` for every field of a message.
fn each<'a>(
    message: &'a [u8],
    mut visit: impl FnMut(u64, Field<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut fields = Fields(message);
    while let Some((number, field)) = fields.next()? {
        visit(number, field)?;
    }
    Ok(())
}

/// The points of gauges and sums of `MetricsData`, in the order of the client.
pub(crate) fn points(data: &[u8]) -> Result<Vec<Point>, Malformed> {
    let mut points = Vec::new();
    // MetricsData.resource_metrics, ResourceMetrics.scope_metrics, ScopeMetrics.metrics.
    each(data, |number, field| match (number, field) {
        (1, Field::Bytes(resource)) => each(resource, |number, field| match (number, field) {
            (2, Field::Bytes(scope)) => each(scope, |number, field| match (number, field) {
                (2, Field::Bytes(one)) => metric(one, &mut points),
                _ => Ok(()),
            }),
            _ => Ok(()),
        }),
        _ => Ok(()),
    })?;
    Ok(points)
}

fn metric(message: &[u8], points: &mut Vec<Point>) -> Result<(), Malformed> {
    let mut name = String::new();
    let mut found = Vec::new();
    each(message, |number, field| match (number, field) {
        (1, Field::Bytes(text)) => {
            name = String::from_utf8_lossy(text).into_owned();
            Ok(())
        }
        // Gauge and Sum, whose data points have the same number.
        (5 | 7, Field::Bytes(data)) => each(data, |number, field| match (number, field) {
            (1, Field::Bytes(one)) => {
                found.extend(point(one)?);
                Ok(())
            }
            _ => Ok(()),
        }),
        _ => Ok(()),
    })?;
    points.extend(found.into_iter().map(|(labels, value)| Point {
        metric: name.clone(),
        labels,
        value,
    }));
    Ok(())
}

/// `NumberDataPoint`; `None` without a value.
fn point(message: &[u8]) -> Result<Option<(Vec<String>, Number)>, Malformed> {
    let mut labels = Vec::new();
    let mut value = None;
    each(message, |number, field| {
        match (number, field) {
            (4, Field::Fixed(bits)) => value = Some(Number::Double(f64::from_bits(bits))),
            (6, Field::Fixed(bits)) => value = Some(Number::Int(bits.cast_signed())),
            (7, Field::Bytes(pair)) => labels.push(label(pair)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(value.map(|value| (labels, value)))
}

/// `KeyValue`.
fn label(message: &[u8]) -> Result<String, Malformed> {
    let (mut key, mut value) = (String::new(), String::new());
    each(message, |number, field| {
        match (number, field) {
            (1, Field::Bytes(text)) => key = String::from_utf8_lossy(text).into_owned(),
            (2, Field::Bytes(any)) => value = any_value(any)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(format!("{key}={value}"))
}

/// `AnyValue`: text, truth or number; empty for the rest.
fn any_value(message: &[u8]) -> Result<String, Malformed> {
    let mut value = String::new();
    each(message, |number, field| {
        match (number, field) {
            (1, Field::Bytes(text)) => value = String::from_utf8_lossy(text).into_owned(),
            (2, Field::Varint(truth)) => value = (truth != 0).to_string(),
            (3, Field::Varint(bits)) => value = bits.cast_signed().to_string(),
            (4, Field::Fixed(bits)) => value = f64::from_bits(bits).to_string(),
            _ => {}
        }
        Ok(())
    })?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u8, content: &[u8]) -> Vec<u8> {
        let head = [number << 3 | 2, u8::try_from(content.len()).unwrap()];
        [&head, content].concat()
    }

    fn fixed(number: u8, bits: u64) -> Vec<u8> {
        [&[number << 3 | 1][..], &bits.to_le_bytes()].concat()
    }

    fn sample() -> Vec<u8> {
        let text = message(2, &message(1, b"n0"));
        let label = message(7, &[message(1, b"node"), text].concat());
        let rate = [fixed(3, 1), fixed(4, 2.5_f64.to_bits()), label].concat();
        let total = fixed(6, 7);
        let gauge = [message(1, b"rate"), message(5, &message(1, &rate))].concat();
        let sum = message(7, &[message(1, &total), vec![0x10, 2]].concat());
        let sum = [message(1, b"total"), sum].concat();
        let scope = [message(1, b"scope"), message(2, &gauge), message(2, &sum)].concat();
        message(1, &message(2, &scope))
    }

    #[test]
    fn gauges_and_sums_are_read_with_their_labels() {
        let point = |metric: &str, labels: &[&str], value| Point {
            metric: metric.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            value,
        };
        let want = [
            point("rate", &["node=n0"], Number::Double(2.5)),
            point("total", &[], Number::Int(7)),
        ];
        assert_eq!(points(&sample()).unwrap(), want);
        assert_eq!(points(&[]), Ok(Vec::new()));
    }

    #[test]
    fn every_truncation_and_every_flip_ends_without_a_panic() {
        let whole = sample();
        for len in 1..whole.len() {
            assert_eq!(points(&whole[..len]), Err(Malformed), "{len} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = points(&bytes);
        }
    }
}

//! Points in time as people write them: milliseconds since 1970, RFC 3339, or a local time; and durations.
//!
//! Proleptic Gregorian calendar, leap second 60 read as 59.999. A time without an offset is one of the local time zone.

use std::fmt::Write;
use std::time::Duration;

use env::Env;

const DAY_MS: i64 = 86_400_000;

/// Milliseconds since 1970 of `text`: digits, or `2026-11-21T09:30:00.250+01:00`, or a local `2026-11-21 09:30`, or a bare date
/// (local midnight).
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    parse_in(text, Env::local_to_utc_ms)
}

/// The same with a time zone given as what makes UTC of its times.
fn parse_in(text: &str, to_utc: impl Fn(i64) -> Option<i64>) -> Result<i64, String> {
    let bad = || {
        format!(
            "`{text}` is neither milliseconds since 1970 nor a time such as 2026-11-21T09:30:00Z or 2026-11-21 09:30"
        )
    };
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| bad());
    }
    match written(text).ok_or_else(bad)? {
        (ms, Some(zone)) => Ok(ms - zone),
        (ms, None) => to_utc(ms).ok_or_else(bad),
    }
}

/// A duration such as `90s`, `1h30m` or `2d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is no duration such as 90s, 15m, 1h30m or 2d");
    let (mut rest, mut total) = (text, Duration::ZERO);
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        let (unit, after) = [
            ("ms", 1),
            ("s", 1000),
            ("m", 60_000),
            ("h", 3_600_000),
            ("d", DAY_MS as u64),
        ]
        .into_iter()
        .find_map(|(name, ms)| Some((ms, rest[digits..].strip_prefix(name)?)))
        .ok_or_else(bad)?;
        let part = number.checked_mul(unit).map(Duration::from_millis);
        total = part
            .and_then(|part| total.checked_add(part))
            .ok_or_else(bad)?;
        rest = after;
    }
    Ok(total)
}

/// A sentence about a clock that was never set, as that of a machine without a battery; `None` for any other.
pub(crate) fn odd_clock(now_ms: i64) -> Option<String> {
    // The first second of 2015: no clock that anybody has set is behind it.
    const SET_SINCE: i64 = 1_420_070_400_000;
    (now_ms < SET_SINCE).then(|| {
        format!(
            "the clock of this machine says {}: set it, or records get times that nobody finds",
            format(now_ms)
        )
    })
}

/// Milliseconds of a written time as UTC would have it, and the offset that is written with it.
fn written(text: &str) -> Option<(i64, Option<i64>)> {
    let (date, rest) = text.split_at_checked(10)?;
    let day = days(date)? * DAY_MS;
    if rest.is_empty() {
        return Some((day, None));
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = match rest.split_at_checked(8) {
        Some((clock, rest)) if clock.as_bytes()[5] == b':' => (clock.to_owned(), rest),
        _ => {
            let (clock, rest) = rest.split_at_checked(5)?;
            (format!("{clock}:00"), rest)
        }
    };
    let [hour, minute, second] = fields(&clock, ':', [2, 2, 2])?;
    if !(hour < 24 && minute < 60 && second <= 60) {
        return None;
    }
    let (fraction_ms, rest) = match rest.strip_prefix('.') {
        Some(rest) => fraction(rest)?,
        None => (0, rest),
    };
    let ms = if second == 60 {
        59_999
    } else {
        second * 1000 + fraction_ms
    };
    let zone = if rest.is_empty() {
        None
    } else {
        Some(zone(rest)?)
    };
    Some((day + (hour * 60 + minute) * 60_000 + ms, zone))
}

/// Milliseconds east of Greenwich.
fn zone(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let [hour, minute] = fields(text.get(1..)?, ':', [2, 2])?;
    (hour < 24 && minute < 60).then_some(sign * (hour * 60 + minute) * 60_000)
}

fn fraction(text: &str) -> Option<(i64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return None;
    }
    let mut ms = 0;
    for i in 0..3 {
        ms = ms * 10
            + digits
                .as_bytes()
                .get(i)
                .map_or(0, |digit| i64::from(digit - b'0'));
    }
    Some((ms, rest))
}

fn fields<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(separator);
    for (slot, width) in found.iter_mut().zip(widths) {
        let part = parts.next()?;
        if part.len() != width || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a `YYYY-MM-DD`.
fn days(date: &str) -> Option<i64> {
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    if !(1..=12).contains(&month) || day < 1 || month_days(year, month) < day {
        return None;
    }
    // Years are counted from March, so that the leap day is the last one of a year.
    let (y, m) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let in_era = y.rem_euclid(400);
    let day_of_year = (153 * m + 2) / 5 + day - 1;
    Some(
        y.div_euclid(400) * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + day_of_year
            - 719_468,
    )
}

/// RFC 3339 in UTC with milliseconds; what lies outside of years 0-9999 stays a number.
pub(crate) fn format(ms: i64) -> String {
    const FIRST: i64 = -719_528 * DAY_MS;
    const END: i64 = 2_932_897 * DAY_MS;
    if !(FIRST..END).contains(&ms) {
        return ms.to_string();
    }
    let (day, rest) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let z = day + 719_468;
    let (era, in_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let day_of_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * day_of_year + 2) / 153;
    let month = if m < 10 { m + 3 } else { m - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let mut text = String::new();
    let _ = write!(
        text,
        "{year:04}-{month:02}-{:02}T",
        day_of_year - (153 * m + 2) / 5 + 1
    );
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let _ = write!(
        text,
        "{hour:02}:{minute:02}:{:02}.{:03}Z",
        rest / 1000 % 60,
        rest % 1000
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_read_as_milliseconds() {
        for (text, ms) in [
            ("0", 0),
            ("1700000000123", 1_700_000_000_123),
            ("1970-01-01T00:00:00Z", 0),
            ("2023-11-14T22:13:20.123456Z", 1_700_000_000_123),
            ("2023-11-14T23:13:20.1+01:00", 1_700_000_000_100),
            ("2023-11-14 17:43:20-04:30", 1_700_000_000_000),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2023-11-14 17:43-04:30", 1_699_999_980_000),
        ] {
            assert_eq!(parse(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn a_time_without_an_offset_is_local() {
        let two_east = |text: &str| parse_in(text, |ms| Some(ms - 7_200_000));
        for (text, ms) in [
            ("2000-02-29", 951_775_200_000),
            ("2023-11-15 00:13:20", 1_700_000_000_000),
            ("2023-11-15T00:13", 1_699_999_980_000),
            ("2023-11-14T22:13:20.5Z", 1_700_000_000_500),
        ] {
            assert_eq!(two_east(text), Ok(ms), "{text}");
        }
        assert!(parse_in("2000-02-29", |_| None).is_err());
        // Whatever zone the test runs in, it is within a day of UTC.
        let local = parse("2023-11-14 22:13:20").unwrap();
        assert!((local - 1_700_000_000_000).abs() < DAY_MS);
    }

    #[test]
    fn durations_have_units_and_may_have_several() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("15m", 900.0),
            ("6h", 21_600.0),
            ("2d", 172_800.0),
            ("1h30m", 5400.0),
            ("1m500ms", 60.5),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "15",
            "1w",
            "-1s",
            "99999999999999999999d",
            "1½h",
            "1h30",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_clock_that_was_never_set_is_named() {
        assert!(odd_clock(5000).unwrap().contains("1970-01-01T00:00:05"));
        assert_eq!(odd_clock(parse("2020-01-01T00:00:00Z").unwrap()), None);
    }

    #[test]
    fn impossible_moments_are_refused() {
        for text in [
            "",
            "yesterday",
            "2023-02-29",
            "2023-13-01",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:13:2",
            "2023-11-14T2:13",
            "2023-11-14T22:13:20.Z",
            "99999999999999999999",
            "2023-11-1412:00:00Z",
            "-5",
        ] {
            assert!(parse(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn printing_and_parsing_agree_for_every_day_of_five_centuries() {
        let mut ms = parse("1800-01-01T00:00:00Z").unwrap() + 3_723_004;
        while ms < parse("2300-01-01T00:00:00Z").unwrap() {
            assert_eq!(parse(&format(ms)), Ok(ms));
            ms += DAY_MS;
        }
    }

    #[test]
    fn times_beyond_the_calendar_stay_numbers() {
        assert_eq!(format(i64::MAX), i64::MAX.to_string());
        assert_eq!(format(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!(format(253_402_300_800_000), "253402300800000");
    }
}

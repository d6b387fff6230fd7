//! Calendar days and months for budgets and usage: in UTC, from seconds since 1970.

use jiff::{ToSpan, civil::Date, tz::TimeZone};

/// A calendar period.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Period {
    /// From midnight to midnight.
    Day,
    /// From the first day to the last.
    Month,
}

impl Period {
    /// The name used in policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// The first second of the period that contains `unix`.
    pub fn start(self, unix: i64) -> i64 {
        let date = date(unix);
        seconds(match self {
            Self::Day => date,
            Self::Month => date.first_of_month(),
        })
    }

    /// The first second of the next period.
    pub fn end(self, unix: i64) -> i64 {
        let start = date(self.start(unix));
        let span = match self {
            Self::Day => 1.day(),
            Self::Month => 1.month(),
        };
        seconds(start.saturating_add(span))
    }
}

/// The date of `unix`.
pub fn date(unix: i64) -> Date {
    jiff::Timestamp::from_second(unix).unwrap_or_default().to_zoned(TimeZone::UTC).date()
}

/// `unix` in RFC 3339: `2026-12-01T00:00:00Z`.
pub fn written(unix: i64) -> String {
    jiff::Timestamp::from_second(unix).unwrap_or_default().to_string()
}

fn seconds(date: Date) -> i64 {
    date.to_zoned(TimeZone::UTC).map_or(0, |zoned| zoned.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn periods_begin_by_the_calendar() {
        let unix = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
        let now = unix("2024-02-28T13:14:15Z");
        assert_eq!(written(Period::Day.start(now)), "2024-02-28T00:00:00Z");
        assert_eq!(written(Period::Day.end(now)), "2024-02-29T00:00:00Z");
        assert_eq!(written(Period::Month.start(now)), "2024-02-01T00:00:00Z");
        assert_eq!(written(Period::Month.end(now)), "2024-03-01T00:00:00Z");
        assert_eq!(written(Period::Month.end(unix("2026-12-31T23:59:59Z"))), "2027-01-01T00:00:00Z");
        assert_eq!(date(now).to_string(), "2024-02-28");
    }

    proptest! {
        #[test]
        fn every_second_is_in_one_period(unix in 0_i64..4_000_000_000) {
            for period in [Period::Day, Period::Month] {
                let (start, end) = (period.start(unix), period.end(unix));
                prop_assert!(start <= unix && unix < end);
                prop_assert_eq!((period.start(end - 1), period.start(end)), (start, end));
            }
        }
    }
}

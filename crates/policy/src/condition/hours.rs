//! Hours of the week in a time zone, for `time.in`.

use std::sync::LazyLock;

use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase, TimeZoneName},
};

use signalbox_config::{Mistake, nearest};

/// The built-in time zones: no system files are read, and every gateway has the same ones.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const EXAMPLE: &str = "write it like `22:00-06:00`, `mon-fri 09:00-17:00` or `sat,sun`";
const DAY: u16 = 24 * 60;

/// A daily time range on some days of the week, in a time zone.
#[derive(Clone, Debug)]
pub(super) struct Hours {
    /// Days on which the range begins, from Monday.
    days: [bool; 7],
    /// The first minute of the day in the range.
    from: u16,
    /// The first minute after the range; if not after `from`, the range spans midnight.
    to: u16,
    zone: TimeZone,
}

impl Hours {
    /// Parses days such as `mon-fri` or `sat,sun` (default: all) and a range such as `22:00-06:00` (default: the whole
    /// day).
    pub(super) fn read(range: &str, zone: TimeZone) -> Result<Self, Mistake> {
        let mut words = range.split_ascii_whitespace();
        let (first, second) = (words.next(), words.next());
        let (days, hours) = match (first, second) {
            (Some(days), Some(hours)) => (Some(days), Some(hours)),
            (Some(hours), None) if hours.starts_with(|c: char| c.is_ascii_digit()) => (None, Some(hours)),
            (Some(days), None) => (Some(days), None),
            _ => return Err(Mistake::new("an empty range of time").help(EXAMPLE)),
        };
        if let Some(more) = words.next() {
            return Err(Mistake::new(format!("`{more}` does not belong to a range of time")).help(EXAMPLE));
        }
        let days = days.map_or(Ok([true; 7]), read_days)?;
        let (from, to) = hours.map_or(Ok((0, DAY)), read_hours)?;
        Ok(Self { days, from, to, zone })
    }

    /// True if `unix`, in seconds since 1970, lies in the range.
    pub(super) fn contains(&self, unix: i64) -> bool {
        let Ok(timestamp) = Timestamp::from_second(unix) else { return false };
        let local = unix + i64::from(self.zone.to_offset(timestamp).seconds());
        // 1970 began on a Thursday.
        let weekday = (local.div_euclid(86_400) + 3).rem_euclid(7) as usize;
        let minute = (local.rem_euclid(86_400) / 60) as u16;
        if self.from < self.to {
            return self.days[weekday] && (self.from..self.to).contains(&minute);
        }
        (minute >= self.from && self.days[weekday]) || (minute < self.to && self.days[(weekday + 6) % 7])
    }
}

/// The time zone with the IANA name `name`.
pub(super) fn zone(name: &str) -> Result<TimeZone, Mistake> {
    ZONES.get(name).map_err(|_| {
        let known: Vec<_> = ZONES.available().collect();
        // `Berlin` and `Europe/Berlin` are dissimilar as strings only.
        let city = known.iter().map(TimeZoneName::as_str).find(|zone| {
            zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&name.replace(' ', "_")))
        });
        let meant = city.or_else(|| nearest(name, known.iter().map(TimeZoneName::as_str)));
        Mistake::new(format!("there is no time zone `{name}`")).help(match meant {
            Some(zone) => format!("did you mean `{zone}`?"),
            None => "name it as the IANA database does: `Europe/Berlin`, `America/New_York`, `UTC`".to_owned(),
        })
    })
}

fn read_days(text: &str) -> Result<[bool; 7], Mistake> {
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut day, last) = (read_day(first)?, read_day(last)?);
        days[day] = true;
        while day != last {
            day = (day + 1) % 7;
            days[day] = true;
        }
    }
    Ok(days)
}

fn read_day(text: &str) -> Result<usize, Mistake> {
    let lower = text.to_ascii_lowercase();
    DAYS.iter().position(|day| *day == lower).ok_or_else(|| {
        let meant = DAYS.iter().find(|day| lower.starts_with(**day)).copied().or_else(|| nearest(&lower, DAYS));
        Mistake::new(format!("`{text}` is no day of the week")).help(match meant {
            Some(day) => format!("did you mean `{day}`?"),
            None => format!("the days are `{}`", DAYS.join("`, `")),
        })
    })
}

fn read_hours(text: &str) -> Result<(u16, u16), Mistake> {
    let Some((from, to)) = text.split_once('-') else {
        return Err(Mistake::new(format!("`{text}` is no range of time")).help(EXAMPLE));
    };
    let (from, to) = (read_time(from)?, read_time(to)?);
    if from == DAY {
        return Err(Mistake::new("a range that begins at `24:00`").help("write `00:00`"));
    }
    if from == to {
        return Err(Mistake::new("a range that ends where it begins").help("write `00:00-24:00` for the whole day"));
    }
    Ok((from, to))
}

/// Minutes since midnight.
fn read_time(text: &str) -> Result<u16, Mistake> {
    let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u16>().ok())?;
    let time = text.split_once(':').and_then(|(hour, minute)| {
        let (hour, minute) = (number(hour).filter(|_| hour.len() <= 2)?, number(minute).filter(|_| minute.len() == 2)?);
        (minute < 60).then_some(hour * 60 + minute).filter(|time| *time <= DAY)
    });
    time.ok_or_else(|| {
        Mistake::new(format!("`{text}` is no time of day")).help("write hours and minutes from `00:00` to `24:00`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(range: &str, name: &str) -> Hours {
        Hours::read(range, zone(name).unwrap()).unwrap()
    }

    /// Seconds since 1970 of a time in RFC 3339.
    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_second()
    }

    #[test]
    fn a_range_may_go_over_midnight() {
        let night = hours("22:00-06:00", "UTC");
        for (time, inside) in [
            ("21:59:59", false),
            ("22:00:00", true),
            ("23:59:59", true),
            ("00:00:00", true),
            ("05:59:59", true),
            ("06:00:00", false),
        ] {
            assert_eq!(night.contains(at(&format!("2026-11-21T{time}Z"))), inside, "{time}");
        }
    }

    #[test]
    fn zones_keep_their_summer_time() {
        let day = hours("09:00-17:00", "Europe/Berlin");
        assert!(!day.contains(at("2026-01-15T07:30:00Z")), "08:30 in winter");
        assert!(day.contains(at("2026-07-15T07:30:00Z")), "09:30 in summer");
        let half = hours("00:00-00:30", "Asia/Kolkata");
        assert!(half.contains(at("2026-01-14T18:45:00Z")), "00:15 there");
    }

    #[test]
    fn a_range_belongs_to_the_day_it_begins_on() {
        let friday = hours("fri 22:00-06:00", "UTC");
        assert!(friday.contains(at("2026-11-20T23:00:00Z")), "Friday night");
        assert!(friday.contains(at("2026-11-21T05:00:00Z")), "Saturday morning");
        assert!(!friday.contains(at("2026-11-20T05:00:00Z")), "Friday morning");
        let weekend = hours("Sat,sun", "UTC");
        assert!(weekend.contains(at("2026-11-22T23:59:59Z")) && !weekend.contains(at("2026-11-23T00:00:00Z")));
        let over = hours("sat-mon 00:00-24:00", "UTC");
        assert!(over.contains(at("2026-11-23T12:00:00Z")) && !over.contains(at("2026-11-24T12:00:00Z")));
    }

    #[test]
    fn invalid_ranges_are_reported() {
        for (range, message) in [
            ("", "an empty range of time"),
            ("22:00", "`22:00` is no range of time"),
            ("22:00-25:00", "`25:00` is no time of day"),
            ("22-06", "`22` is no time of day"),
            ("9:0-10:00", "`9:0` is no time of day"),
            ("22:00-22:00", "a range that ends where it begins"),
            ("24:00-06:00", "a range that begins at `24:00`"),
            ("monday 09:00-17:00", "`monday` is no day of the week"),
            ("mon 09:00-17:00 daily", "`daily` does not belong to a range of time"),
            ("mon 09:00-1é:00", "`1é:00` is no time of day"),
        ] {
            assert_eq!(Hours::read(range, TimeZone::UTC).unwrap_err().message, message, "{range}");
        }
        assert_eq!(zone("Europe/Berlln").unwrap_err().help.unwrap(), "did you mean `Europe/Berlin`?");
        assert_eq!(zone("New York").unwrap_err().help.unwrap(), "did you mean `America/New_York`?");
        assert!(zone("here").is_err());
    }
}

//! Moments as people write them: RFC 3339 text to milliseconds since the Unix epoch and back.

/// 9999-12-31T23:59:59.999Z, the last moment that RFC 3339 can write.
pub const LATEST_MS: u64 = 253_402_300_799_999;

const DAY_MS: u64 = 86_400_000;

/// Days of the months before each, in a year that is no leap year.
const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Reads `2027-01-01T00:00:00Z`, with a fraction of a second (cut to milliseconds) and any offset; nothing before 1970.
pub fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.split_at_checked(10)?;
    let time = time.strip_prefix(['T', 't', ' '])?;
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    let (clock, behind) = time.split_at_checked(8)?;
    let [hour, minute, second] = fields(clock, ':', [2, 2, 2])?;
    let (fraction_ms, offset) = fraction(behind)?;
    let month_index = usize::try_from(month.checked_sub(1)?).ok()?;
    let in_month = BEFORE.get(month_index).copied()?;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        2 => {
            if leap(year) {
                29
            } else {
                28
            }
        }
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    // RFC 3339 allows a leap second; it is the next minute's first here, as in every count of Unix time.
    if year < 1970 || !(1..=longest).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let leap_day = u64::from(leap(year) && month > 2);
    let days = days_before(year)
        .saturating_add(in_month)
        .saturating_add(leap_day)
        .saturating_add(day.checked_sub(1)?);
    let minutes = hour.saturating_mul(60).saturating_add(minute);
    let in_day =
        minutes.saturating_mul(60).saturating_add(second).saturating_mul(1000).saturating_add(fraction_ms);
    let local = i64::try_from(days.saturating_mul(DAY_MS).saturating_add(in_day)).ok()?;
    u64::try_from(local.checked_sub(offset_ms(offset)?)?).ok().filter(|ms| *ms <= LATEST_MS)
}

/// The moment in UTC, with milliseconds where it has any.
pub fn to_text(ms: u64) -> String {
    let days = ms / DAY_MS;
    // Never too late a year, and at most a few too early.
    let mut year = 1970_u64.saturating_add(days / 366);
    while days_before(year.saturating_add(1)) <= days {
        year = year.saturating_add(1);
    }
    let in_year = days.saturating_sub(days_before(year));
    let leap = u64::from(days_before(year.saturating_add(1)).saturating_sub(days_before(year)) == 366);
    let starts = BEFORE
        .iter()
        .zip(1_u64..)
        .map(|(before, month)| (before.saturating_add(if month > 2 { leap } else { 0 }), month));
    let (start, month) = starts.filter(|(start, _)| *start <= in_year).last().unwrap_or((0, 1));
    let day = in_year.saturating_sub(start).saturating_add(1);
    let in_day = ms % DAY_MS;
    let (hour, minute, second, rest) =
        (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1000 % 60, in_day % 1000);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest:03}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Days from 1970 to a year's first.
fn days_before(year: u64) -> u64 {
    let past = year.saturating_sub(1);
    let leaps = (past / 4).saturating_sub(past / 100).saturating_add(past / 400);
    // 477 leap days lie before 1970.
    year.saturating_sub(1970).saturating_mul(365).saturating_add(leaps.saturating_sub(477))
}

/// Three numbers of fixed widths.
fn fields(text: &str, between: char, widths: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(between).zip(widths).map(|(part, width)| {
        let digits = part.len() == width && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok())?
    });
    let read = [parts.next()??, parts.next()??, parts.next()??];
    (text.split(between).count() == 3).then_some(read)
}

/// The fraction of a second in milliseconds, and what stands behind it.
fn fraction(text: &str) -> Option<(u64, &str)> {
    let Some(digits) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let width = digits.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, behind) = digits.split_at_checked(width)?;
    let ms = fraction.chars().chain("000".chars()).take(3).collect::<String>().parse().ok()?;
    (width > 0).then_some((ms, behind))
}

fn offset_ms(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (east, clock) = match text.split_at_checked(1)? {
        ("+", clock) => (1, clock),
        ("-", clock) => (-1, clock),
        _ => return None,
    };
    let [hour, minute, _] = fields(&format!("{clock}:00"), ':', [2, 2, 2])?;
    if hour > 23 || minute > 59 {
        return None;
    }
    let ms = hour.saturating_mul(60).saturating_add(minute).saturating_mul(60_000);
    i64::try_from(ms).ok()?.checked_mul(east)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_milliseconds() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2026-11-29T20:18:07Z", 1_795_983_487_000),
            ("2027-01-01T00:00:00Z", 1_798_761_600_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
            ("9999-12-31T23:59:59.999Z", LATEST_MS),
        ] {
            assert_eq!(parse(text), Some(ms), "{text}");
            assert_eq!(to_text(ms), text);
        }
        for (text, ms) in [
            ("2027-01-01t01:30:00.5+01:30", 1_798_761_600_500),
            ("2026-12-31 19:00:00.123456-05:00", 1_798_761_600_123),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ] {
            assert_eq!(parse(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn every_day_comes_back() {
        for day in (0..LATEST_MS / DAY_MS).step_by(17) {
            let ms = day * DAY_MS + day % DAY_MS;
            assert_eq!(parse(&to_text(ms)), Some(ms), "{}", to_text(ms));
        }
    }

    #[test]
    fn anything_else_is_no_moment() {
        for text in [
            "",
            "2027",
            "2027-01-01",
            "2027-01-01T00:00:00",
            "2027-13-01T00:00:00Z",
            "2027-00-01T00:00:00Z",
            "2027-02-29T00:00:00Z",
            "2027-04-31T00:00:00Z",
            "2027-01-01T24:00:00Z",
            "2027-01-01T00:60:00Z",
            "2027-01-01T00:00:61Z",
            "2027-01-01T00:00:00.Z",
            "2027-01-01T00:00:00+1:00",
            "2027-01-01T00:00:00+24:00",
            "2027-01-01T00:00:00Z ",
            "+027-01-01T00:00:00Z",
            "2027-1-01T00:00:000Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "10000-01-01T00:00:00Z",
            "€2027-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

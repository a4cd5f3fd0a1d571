//! Costs: digits, or a reason.

use sluicegate::gateway::cost::parse;

use crate::drive::each;
use crate::mutate::Corpus;

#[test]
fn costs() {
    let inputs = vec![
        "0",
        "1",
        "100",
        " 7 ",
        "007",
        "-1",
        "+1",
        "1.0",
        "1e2",
        "NaN",
        "9007199254740993",
        "18446744073709551616",
    ];
    let corpus = Corpus::of(inputs, &["0", "9", "-", "+", ".", "e", " ", "٣", "_", ","]);
    each("costs", 40_000, |random| {
        let text = corpus.text(random);
        let max = random.magnitude();
        let digits = text.trim();
        let sound = (1..=16).contains(&digits.len()) && digits.chars().all(|c: char| c.is_ascii_digit());
        let value = digits.chars().fold(0_u128, |sum, c| {
            sum.saturating_mul(10).saturating_add(u128::from(c.to_digit(10).unwrap_or(0)))
        });
        let expected = (sound && value <= u128::from(max)).then_some(value);
        let read = parse(&text, max);
        assert_eq!(read.as_ref().ok().copied().map(u128::from), expected, "{text:?} up to {max}");
        if let Err(reason) = read {
            assert!(reason.contains(&max.to_string()));
        }
    });
}

//! Inputs near real ones.

use crate::drive::Random;

/// Real inputs, and pieces that mean something in them.
pub struct Corpus {
    inputs: Vec<&'static str>,
    tokens: &'static [&'static str],
}

impl Corpus {
    /// Of a file with an input a line.
    pub fn lines(file: &'static str, tokens: &'static [&'static str]) -> Self {
        Self::of(file.lines().collect(), tokens)
    }

    /// Of these inputs.
    pub fn of(inputs: Vec<&'static str>, tokens: &'static [&'static str]) -> Self {
        assert!(!inputs.is_empty());
        Self { inputs, tokens }
    }

    /// An input as it stands in the corpus.
    pub fn real(&self, random: &mut Random) -> &'static str {
        random.pick(&self.inputs)
    }

    /// An input, changed in up to five places.
    pub fn text(&self, random: &mut Random) -> String {
        let mut text: Vec<char> = self.real(random).chars().collect();
        for _ in 0..random.between(0, 5) {
            self.change(&mut text, random);
        }
        text.into_iter().collect()
    }

    fn change(&self, text: &mut Vec<char>, random: &mut Random) {
        let from = random.below(text.len() + 1);
        let to = (from + random.between(0, 6) as usize).min(text.len());
        match random.between(0, 6) {
            0 => drop(text.drain(from..to)),
            1 => text.insert(from, character(random)),
            2 => drop(text.splice(from..from, random.pick(self.tokens).chars())),
            3 => drop(text.splice(from..to, random.pick(self.tokens).chars())),
            4 => {
                let piece: Vec<char> = text[from..to].to_vec();
                text.splice(from..from, piece.repeat(random.between(1, 3) as usize));
            }
            5 => {
                let other: Vec<char> = self.real(random).chars().collect();
                text.truncate(from);
                text.extend(&other[random.below(other.len() + 1)..]);
            }
            _ => {
                for character in &mut text[from..to] {
                    *character = match *character {
                        c if c.is_ascii_lowercase() => c.to_ascii_uppercase(),
                        c => c.to_ascii_lowercase(),
                    };
                }
            }
        }
    }
}

/// Any character, those below 128 most often.
pub fn character(random: &mut Random) -> char {
    match random.between(0, 9) {
        0 => random
            .pick(&['é', '\u{fffd}', '\u{0}', '\u{7f}', '\u{a0}', '٣', '／', '𝟙', '\u{feff}', '\u{ff01}']),
        1 => char::from_u32(random.between(0, 0x10_ffff) as u32).unwrap_or('\u{fffd}'),
        _ => char::from(random.between(0x20, 0x7e) as u8),
    }
}

/// Text of up to so many characters.
pub fn any_text(random: &mut Random, longest: u64) -> String {
    (0..random.between(0, longest)).map(|_| character(random)).collect()
}

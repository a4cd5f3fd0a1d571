//! JSON near JSON that is real.

use serde_json::{Value, json};

use crate::drive::Random;
use crate::mutate::any_text;

/// Changes a document in up to `most` places. `words` are names and texts that mean something in it.
pub fn changed(mut document: Value, words: &[&str], most: u64, random: &mut Random) -> Value {
    for _ in 0..random.between(0, most) {
        change(&mut document, words, random);
    }
    document
}

fn change(value: &mut Value, words: &[&str], random: &mut Random) {
    match value {
        // Down into it, mostly.
        Value::Object(fields) if !fields.is_empty() && random.percent(80) => {
            let name = fields.keys().nth(random.below(fields.len())).cloned().unwrap();
            match random.between(0, 9) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert((random.pick(words)).to_owned(), any(words, random))),
                2 => {
                    let moved = fields.remove(&name).unwrap();
                    fields.insert((random.pick(words)).to_owned(), moved);
                }
                _ => change(&mut fields[&name], words, random),
            }
        }
        Value::Array(items) if !items.is_empty() && random.percent(80) => {
            let at = random.below(items.len());
            match random.between(0, 9) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, any(words, random)),
                2 => items.push(items[at].clone()),
                _ => change(&mut items[at], words, random),
            }
        }
        Value::String(text) if random.percent(60) => {
            let at = text.char_indices().map(|(at, _)| at).nth(random.below(text.len().max(1))).unwrap_or(0);
            match random.between(0, 2) {
                0 => text.insert_str(at, &any_text(random, 3)),
                1 => text.truncate(at),
                _ => text.insert_str(at, random.pick(words)),
            }
        }
        Value::Number(number) if random.percent(60) => {
            let near = number.as_i64().unwrap_or(0).wrapping_add(random.between(0, 2) as i64 - 1);
            *value = json!(near);
        }
        other => *other = any(words, random),
    }
}

fn any(words: &[&str], random: &mut Random) -> Value {
    match random.between(0, 9) {
        0 => Value::Null,
        1 => json!(random.percent(50)),
        2 => json!(random.magnitude()),
        3 => json!(-(random.magnitude() as i64 >> 1)),
        4 => json!(random.next() as f64 / 1e10),
        5 => json!([]),
        6 => json!({}),
        7 => json!([random.pick(words)]),
        8 => json!(any_text(random, 12)),
        _ => json!(random.pick(words)),
    }
}

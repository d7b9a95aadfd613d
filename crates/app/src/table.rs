//! Tables: aligned columns for people, an array of objects for programs.
//!
//! One description serves both. A column's name is the JSON key; its heading is the same name in capitals.

use std::io::{self, Write};

use serde_json::{Map, Value};

pub(crate) struct Table {
    columns: &'static [&'static str],
    rows: Vec<Vec<Value>>,
}

impl Table {
    pub(crate) fn new(columns: &'static [&'static str]) -> Table {
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Value; N]) {
        assert_eq!(N, self.columns.len(), "a row has one cell per column");
        self.rows.push(cells.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn json(&self) -> Value {
        let object = |row: &Vec<Value>| {
            let pairs = self
                .columns
                .iter()
                .zip(row)
                .map(|(name, cell)| ((*name).to_owned(), cell.clone()));
            Value::Object(pairs.collect::<Map<String, Value>>())
        };
        Value::Array(self.rows.iter().map(object).collect())
    }

    /// Prints to standard output in the form the user asked for.
    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            print_json(&mut out, &self.json())
        } else {
            self.write_text(&mut out)
        }
    }

    pub(crate) fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let heads: Vec<String> = self
            .columns
            .iter()
            .map(|name| name.to_uppercase().replace('_', " "))
            .collect();
        let cells: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(text).collect())
            .collect();
        let width = |i: usize| {
            cells
                .iter()
                .map(|row| chars(&row[i]))
                .chain([chars(&heads[i])])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let numeric = |i: usize| {
            !self.rows.is_empty()
                && self
                    .rows
                    .iter()
                    .all(|row| row[i].is_number() || row[i].is_null())
        };
        let right: Vec<bool> = (0..heads.len()).map(numeric).collect();
        for row in std::iter::once(&heads).chain(&cells) {
            let mut line = String::new();
            for (i, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[i].saturating_sub(chars(cell)));
                let gap = if i == 0 { "" } else { "  " };
                line.push_str(gap);
                if right[i] {
                    line.push_str(&pad);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

pub(crate) fn print_json(out: &mut impl Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// A cell as a person reads it: no quotes, lists with commas, pairs as `name:value`, `-` for nothing, nothing that steers the terminal.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => model::printable(text).into_owned(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Object(pairs) if pairs.is_empty() => "-".to_owned(),
        Value::Object(pairs) => {
            let pair = |(name, value): (&String, &Value)| {
                format!("{}:{}", model::printable(name), text(value))
            };
            pairs.iter().map(pair).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

/// A byte count with a unit that keeps it short: `17.2 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_align_numbers_to_the_right_and_words_to_the_left() {
        let mut table = Table::new(&["topic", "log_end", "isr", "lag"]);
        table.row([
            json!("orders"),
            json!(7),
            json!([1, 2]),
            json!({"1": 0, "2": null}),
        ]);
        table.row([json!("p"), json!(12345678), json!([]), json!({})]);
        let mut out = Vec::new();
        table.write_text(&mut out).unwrap();
        let want = "TOPIC    LOG END  ISR  LAG\norders         7  1,2  1:0,2:-\np       12345678  -    -\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn names_of_strangers_stay_in_their_cells_and_json_has_them_as_they_are() {
        let mut table = Table::new(&["group", "members"]);
        let name = "a\u{1b}[2J\nforged  99";
        table.row([json!(name), json!(["x\ty"])]);
        let mut out = Vec::new();
        table.write_text(&mut out).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.contains("a\\x1b[2J\\nforged  99  x\\ty"), "{shown}");
        assert_eq!(table.json()[0]["group"], name);
    }

    #[test]
    fn the_same_table_is_an_array_of_objects() {
        let mut table = Table::new(&["topic", "leader"]);
        table.row([json!("t"), json!(null)]);
        assert_eq!(table.json(), json!([{"topic": "t", "leader": null}]));
    }

    #[test]
    fn byte_counts_carry_their_unit() {
        let want = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1 << 20, "1.0 MiB"),
            (1048575, "1.0 MiB"),
        ];
        for (count, text) in want {
            assert_eq!(bytes(count), text);
        }
    }
}

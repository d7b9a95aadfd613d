//! Rows of CSV (RFC 4180): fields in quotes, a header line, and columns for key, value, time and headers.

use clap::Args;
use serde_json::{Map, Value};

use super::row::Row;
use crate::moment;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CsvArgs {
    /// Character between the fields of CSV, such as ; or \t
    #[arg(long = "csv-separator", value_name = "CHARACTER", value_parser = one_byte, default_value = ",")]
    pub(crate) separator: u8,
    /// The first row is data; columns are named by their number, from 1
    #[arg(long = "csv-no-header")]
    pub(crate) no_header: bool,
    /// Column of the key
    #[arg(long = "csv-key", value_name = "COLUMN")]
    pub(crate) key: Option<String>,
    /// Column of the value; without it the value is the whole row as a JSON object
    #[arg(long = "csv-value", value_name = "COLUMN")]
    pub(crate) value: Option<String>,
    /// Column of the time: milliseconds since 1970, RFC 3339, or a local time
    #[arg(long = "csv-time", value_name = "COLUMN")]
    pub(crate) time: Option<String>,
    /// Columns that become headers of their own names
    #[arg(
        id = "csv_headers",
        long = "csv-headers",
        value_name = "COLUMN,...",
        value_delimiter = ','
    )]
    pub(crate) headers: Vec<String>,
}

fn one_byte(text: &str) -> Result<u8, String> {
    match crate::template::unescape(text)?[..] {
        [byte] if byte != b'"' && byte != b'\n' => Ok(byte),
        _ => Err("it has to be one character that is neither a quote nor a line feed".to_owned()),
    }
}

/// The places of the columns that the flags name.
struct Columns {
    names: Vec<String>,
    key: Option<usize>,
    value: Option<usize>,
    time: Option<usize>,
    headers: Vec<usize>,
}

pub(super) struct Csv {
    args: CsvArgs,
    columns: Option<Columns>,
}

impl Csv {
    pub(super) fn new(args: &CsvArgs) -> Csv {
        Csv {
            args: args.clone(),
            columns: None,
        }
    }

    pub(super) fn separator(&self) -> u8 {
        self.args.separator
    }

    pub(super) fn begin(&mut self) {
        self.columns = None;
    }

    /// The record of a row; `None` for a header line and for a blank one.
    pub(super) fn row(&mut self, line: &[u8]) -> Result<Option<Row>, String> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Ok(None);
        }
        let fields = fields(line, self.args.separator)?;
        let Some(columns) = &self.columns else {
            let is_header = !self.args.no_header;
            let names = if is_header {
                let mut names: Vec<String> = fields
                    .iter()
                    .map(|name| text(name).map(|name| name.trim().to_owned()))
                    .collect::<Result<_, _>>()?;
                // Excel begins a file with a mark that is no part of its first name.
                if let Some(bare) = names[0].strip_prefix('\u{feff}') {
                    names[0] = bare.to_owned();
                }
                names
            } else {
                (1..=fields.len())
                    .map(|number| number.to_string())
                    .collect()
            };
            self.columns = Some(Columns::new(&self.args, names)?);
            return if is_header { Ok(None) } else { self.row(line) };
        };
        let (have, want) = (fields.len(), columns.names.len());
        if have != want {
            return Err(format!(
                "the row has {have} fields, the first one has {want}"
            ));
        }
        columns.record(fields).map(Some)
    }
}

impl Columns {
    fn new(args: &CsvArgs, names: Vec<String>) -> Result<Columns, String> {
        let place = |asked: &String| {
            let by_name = names.iter().position(|name| name == asked);
            let by_number = || {
                let number = asked.parse::<usize>().ok()?;
                (1..=names.len()).contains(&number).then(|| number - 1)
            };
            by_name.or_else(by_number).ok_or_else(|| {
                format!(
                    "there is no column `{asked}`; there are: {}",
                    names.join(", ")
                )
            })
        };
        let optional = |asked: &Option<String>| asked.as_ref().map(place).transpose();
        Ok(Columns {
            key: optional(&args.key)?,
            value: optional(&args.value)?,
            time: optional(&args.time)?,
            headers: args.headers.iter().map(place).collect::<Result<_, _>>()?,
            names,
        })
    }

    fn record(&self, mut fields: Vec<Vec<u8>>) -> Result<Row, String> {
        let value = match self.value {
            Some(at) => fields[at].clone(),
            None => self.object(&fields)?,
        };
        let timestamp = match self.time.map(|at| &fields[at]) {
            Some(time) if !time.is_empty() => Some(moment::parse(text(time)?.trim())?),
            _ => None,
        };
        let headers = self.headers.iter();
        let headers = headers.map(|at| (self.names[*at].clone(), Some(fields[*at].clone())));
        Ok(Row {
            headers: headers.collect(),
            key: self.key.map(|at| std::mem::take(&mut fields[at])),
            value: Some(value),
            timestamp,
            partition: None,
        })
    }

    /// The row as a JSON object, every value text.
    fn object(&self, fields: &[Vec<u8>]) -> Result<Vec<u8>, String> {
        let mut object = Map::new();
        for (name, field) in self.names.iter().zip(fields) {
            object.insert(name.clone(), Value::String(text(field)?.to_owned()));
        }
        Ok(Value::Object(object).to_string().into_bytes())
    }
}

fn text(field: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(field).map_err(|_| {
        "a field is not UTF-8 text; name a column with --csv-value to write its bytes".to_owned()
    })
}

/// The fields of a row, without their quotes.
fn fields(row: &[u8], separator: u8) -> Result<Vec<Vec<u8>>, String> {
    let mut fields = Vec::new();
    let mut rest = row;
    loop {
        let mut field = Vec::new();
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            rest = quoted;
            loop {
                let Some(at) = rest.iter().position(|byte| *byte == b'"') else {
                    return Err("a quote is opened and not closed".to_owned());
                };
                field.extend_from_slice(&rest[..at]);
                rest = &rest[at + 1..];
                match rest.strip_prefix(b"\"") {
                    Some(after) => {
                        field.push(b'"');
                        rest = after;
                    }
                    None => break,
                }
            }
            if rest.first().is_some_and(|byte| *byte != separator) {
                return Err("something follows the closing quote of a field".to_owned());
            }
        } else {
            let end = rest.iter().position(|byte| *byte == separator);
            let (plain, after) = rest.split_at(end.unwrap_or(rest.len()));
            field.extend_from_slice(plain);
            rest = after;
        }
        fields.push(field);
        match rest.split_first() {
            Some((_, after)) => rest = after,
            None => return Ok(fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> CsvArgs {
        CsvArgs {
            separator: b',',
            ..CsvArgs::default()
        }
    }

    #[test]
    fn fields_lose_their_quotes_and_keep_what_is_inside() {
        let of = |row: &str| {
            fields(row.as_bytes(), b',').map(|fields| {
                fields
                    .into_iter()
                    .map(|field| String::from_utf8(field).unwrap())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(of("a,,c").unwrap(), ["a", "", "c"]);
        assert_eq!(of("a,").unwrap(), ["a", ""]);
        assert_eq!(
            of(r#"a,"b"#).unwrap_err(),
            "a quote is opened and not closed"
        );
        assert_eq!(
            of(r#""a,b","say ""hi""","5"" disk",5" disk"#).unwrap(),
            ["a,b", "say \"hi\"", "5\" disk", "5\" disk"]
        );
        assert!(of(r#""a"b"#).is_err());
    }

    #[test]
    fn columns_become_key_value_time_and_headers() {
        let mut csv = Csv::new(&CsvArgs {
            key: Some("id".into()),
            value: Some("text".into()),
            time: Some("3".into()),
            headers: vec!["lang".into()],
            ..args()
        });
        assert_eq!(csv.row(b"\xef\xbb\xbfid,text,at,lang\r"), Ok(None));
        let row = csv
            .row(b"7,\"a, b\",2023-11-14T22:13:20Z,de\r")
            .unwrap()
            .unwrap();
        assert_eq!(
            row,
            Row {
                key: Some(b"7".to_vec()),
                value: Some(b"a, b".to_vec()),
                headers: vec![("lang".into(), Some(b"de".to_vec()))],
                timestamp: Some(1_700_000_000_000),
                partition: None,
            }
        );
        assert_eq!(csv.row(b""), Ok(None));
        assert!(csv.row(b"7,b").unwrap_err().contains("2 fields"));
        assert!(csv.row(b"7,b,soon,de").unwrap_err().contains("soon"));
        csv.begin();
        assert_eq!(
            csv.row(b"id,text,at,lang"),
            Ok(None),
            "the next file has its own header line"
        );
    }

    #[test]
    fn without_a_column_for_it_the_value_is_the_row_as_an_object() {
        let mut csv = Csv::new(&args());
        assert_eq!(csv.row(b"b,a"), Ok(None));
        let row = csv.row(b"1,\"x\"\"y\"").unwrap().unwrap();
        let value: Value = serde_json::from_slice(&row.value.unwrap()).unwrap();
        assert_eq!(value, serde_json::json!({"b": "1", "a": "x\"y"}));
        assert!(csv.row(b"\xff,1").unwrap_err().contains("--csv-value"));

        let mut bare = Csv::new(&CsvArgs {
            no_header: true,
            value: Some("2".into()),
            ..args()
        });
        assert_eq!(
            bare.row(b"a,b").unwrap().unwrap().value.as_deref(),
            Some(&b"b"[..])
        );
        let mut wrong = Csv::new(&CsvArgs {
            key: Some("key".into()),
            ..args()
        });
        assert!(wrong.row(b"id,text").unwrap_err().contains("id, text"));
    }
}

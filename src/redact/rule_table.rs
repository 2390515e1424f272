//! The built-in rules as a table, which a command reads at its start: TOML and regular expressions would take longer
//! than a short command (pure).
//!
//! The table, `rules/table.txt`, is made from `rules/*.toml`: `TD_BLESS=1 cargo test --lib redact::rule_table` writes it
//! anew, and without the variable, the test compares them. The first byte of a line states what it is:
//!
//! | byte | line |
//! | --- | --- |
//! | `#` | a comment |
//! | `=` | a rule: id, body, min, max, hide, check, flags, until |
//! | `@` | a name: id, check, flags |
//! | `l`, `t` | the lead of the rule: a pattern, or one of several texts |
//! | `k`, `K` | a keyword; several that have all but their last character in common, which follow a tab |
//! | `w`, `-` | a word of the name, a part of names that announce something else |
//!
//! A body is the set of its bytes as a number, and `+` for all bytes beyond ASCII. The flags are the first letters of
//! fields that are true.

use std::str::Split;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};

use super::rule::{Edge, Lead, NameTable, Pattern, Rule, marker};
use super::words::Words;

/// What a missing number or byte is written as.
const NONE: &str = "-";

/// The rules read so far, and their bodies, of which many rules share one.
#[derive(Default)]
struct Reader<'a> {
    rules: Vec<Rule>,
    bodies: FxHashMap<&'a str, Arc<[bool; 256]>>,
    /// The rule to which the next lines belong.
    current: usize,
}

/// Reads the table; returns `None` if it is none.
pub(super) fn read(text: &str) -> Option<Vec<Rule>> {
    let mut reader = Reader::default();
    for line in text.lines() {
        let (kind, rest) = line.split_at_checked(1)?;
        if kind != "#" {
            reader.line(kind, rest)?;
        }
    }
    Some(reader.rules)
}

impl<'a> Reader<'a> {
    fn line(&mut self, kind: &str, rest: &'a str) -> Option<()> {
        if matches!(kind, "=" | "@") {
            self.current = self.rules.len();
            return match kind {
                "=" => self.rule(rest.split(' ')),
                _ => self.name(rest.split(' ')),
            };
        }
        let rule = self.rules.get_mut(self.current)?;
        match (kind, &mut rule.lead) {
            ("k", _) => rule.keywords.push(rest),
            ("K", _) => {
                let (head, last) = rest.rsplit_once('\t')?;
                rule.keywords.push_each(head, last);
            }
            ("t", Lead::Texts(texts)) => texts.push(rest.into()),
            ("l", lead) => {
                *lead = Lead::Pattern(Arc::new(Pattern::new(rest.to_owned(), rule.start)));
            }
            ("w", Lead::Name(name)) => name.words.push(rest.to_owned()),
            ("-", Lead::Name(name)) => name.not.push(rest.to_owned()),
            _ => return None,
        }
        Some(())
    }

    fn rule(&mut self, mut fields: Split<'a, char>) -> Option<()> {
        let marker = marker(fields.next()?);
        let body = self.body(fields.next()?)?;
        let min = fields.next()?.parse().ok()?;
        let max = fields.next().filter(|max| *max != NONE);
        let max = max.map_or(Some(usize::MAX), |max| max.parse().ok())?;
        let (hide, check, flags) = (
            named(fields.next()?)?,
            named(fields.next()?)?,
            fields.next()?,
        );
        let until = fields.next().filter(|until| *until != NONE);
        let (start, word) = (flags.contains('s'), flags.contains('w'));
        self.rules.push(Rule {
            min,
            max,
            hide,
            word,
            start,
            edge: Edge::of_lead(start, word),
            until: until.and_then(|until| until.bytes().next()),
            check,
            lines: flags.contains('l'),
            ..Rule::new(marker, Lead::Texts(Vec::new()), body)
        });
        Some(())
    }

    fn name(&mut self, mut fields: Split<'a, char>) -> Option<()> {
        let name = NameTable {
            id: fields.next()?.to_owned(),
            words: Vec::new(),
            check: named(fields.next()?)?,
            part: fields.next()?.contains('p'),
            not: Vec::new(),
        };
        self.rules.extend(name.into_rules(Words::default()));
        Some(())
    }

    fn body(&mut self, written: &'a str) -> Option<Arc<[bool; 256]>> {
        if let Some(known) = self.bodies.get(written) {
            return Some(Arc::clone(known));
        }
        let digits = written.trim_end_matches('+');
        let set = u128::from_str_radix(digits, 16).ok()?;
        let mut body = [digits.len() < written.len(); 256];
        for (byte, is_in) in body.iter_mut().take(0x80).enumerate() {
            *is_in = set >> byte & 1 == 1;
        }
        let body = Arc::new(body);
        self.bodies.insert(written, Arc::clone(&body));
        Some(body)
    }
}

/// Returns the value that the files of rules have this name for.
fn named<'a, T: Deserialize<'a>>(name: &'a str) -> Option<T> {
    T::deserialize(StrDeserializer::<Error>::new(name)).ok()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;
    use std::path::Path;

    use serde::Serialize;

    use super::super::edges::MARKER;
    use super::super::rule_file;
    use super::super::rules::{FILES, TABLE};
    use super::*;

    fn name_of(value: impl Serialize) -> String {
        serde_json::to_value(value)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn body_text(body: &[bool; 256]) -> String {
        let set = (0..0x80).fold(0, |set, byte| set | u128::from(body[byte]) << byte);
        let beyond = body[0x80];
        assert!(body[0x80..].iter().all(|is_in| *is_in == beyond));
        format!("{set:032x}{}", if beyond { "+" } else { "" })
    }

    fn keyword_lines(words: &Words, out: &mut String) {
        let split = |word: &str| {
            let last = word.chars().next_back().unwrap();
            assert!(last != '\t' && !word.contains('\n'), "{word:?}");
            (word[..word.len() - last.len_utf8()].to_owned(), last)
        };
        let words: Vec<(String, char)> = words.iter().map(split).collect();
        for words in words.chunk_by(|(a, _), (b, _)| a == b) {
            let head = &words[0].0;
            let last: String = words.iter().map(|(_, last)| *last).collect();
            let line = if words.len() == 1 {
                format!("k{head}{last}\n")
            } else {
                format!("K{head}\t{last}\n")
            };
            out.push_str(&line);
        }
    }

    fn rule_line(rule: &Rule) -> String {
        let id = rule.marker.strip_prefix(MARKER).unwrap();
        let id = id.strip_suffix(']').unwrap();
        if let Lead::Name(name) = &rule.lead {
            let flags = if name.part { "p" } else { "" };
            return format!("@{id} {} {flags}\n", name_of(name.check));
        }
        let flags = [(rule.start, "s"), (rule.word, "w"), (rule.lines, "l")];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        let flags: String = flags.map(|(_, flag)| *flag).collect();
        let max = match rule.max {
            usize::MAX => NONE.to_owned(),
            max => max.to_string(),
        };
        let until = rule.until.map(|until| char::from(until).to_string());
        format!(
            "={id} {} {} {max} {} {} {flags} {}\n",
            body_text(&rule.body),
            rule.min,
            name_of(rule.hide),
            name_of(rule.check),
            until.as_deref().unwrap_or(NONE),
        )
    }

    fn write(rules: &[Rule]) -> String {
        let mut out = "# Made from the files beside it, see ../rule_table.rs.\n".to_owned();
        let own = rules
            .iter()
            .filter(|rule| !matches!(rule.lead, Lead::Value));
        for rule in own {
            out.push_str(&rule_line(rule));
            match &rule.lead {
                Lead::Texts(texts) => {
                    for text in texts {
                        writeln!(out, "t{}", str::from_utf8(text).unwrap()).unwrap();
                    }
                }
                Lead::Pattern(pattern) => writeln!(out, "l{}", pattern.text).unwrap(),
                Lead::Name(name) => {
                    for word in &name.words {
                        writeln!(out, "w{word}").unwrap();
                    }
                    for part in &name.not {
                        writeln!(out, "-{part}").unwrap();
                    }
                }
                Lead::Value | Lead::Exact(_) => panic!("no file has such a lead"),
            }
            keyword_lines(&rule.keywords, &mut out);
        }
        out
    }

    #[test]
    fn the_table_has_the_rules_of_the_files() {
        let rules: Vec<Rule> = (FILES.iter())
            .flat_map(|(_, text)| rule_file::read(text).unwrap())
            .collect();
        let written = write(&rules);
        if std::env::var_os("TD_BLESS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/redact/rules/table.txt");
            fs::write(path, &written).unwrap();
        } else {
            assert!(
                written == TABLE,
                "rules/*.toml have changed: TD_BLESS=1 writes the table anew"
            );
        }
        let read = read(&written).unwrap();
        assert_eq!(write(&read), written);
        assert_eq!(read.len(), rules.len());
        for (read, rule) in read.iter().zip(&rules) {
            let parts = |rule: &Rule| (rule.edge, rule.is_bare, rule.min, rule.check);
            assert_eq!(parts(read), parts(rule));
        }
    }
}

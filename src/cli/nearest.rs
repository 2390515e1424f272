//! "Did you mean": finds the known name that is most similar to a mistyped one (pure).

use std::fmt::Write;

use crate::agent::Format;

/// Maximum number of names in a list; further names are only counted.
const LISTED: usize = 10;

/// The minimum similarity, from 0 to 1, at which a name is suggested.
const SIMILAR: f64 = 0.75;

/// Returns the name that is most similar to the typed one, if one is similar enough.
pub(super) fn nearest<'a>(
    typed: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let score = |name: &str| {
        let name = name.to_lowercase();
        match typed.chars().count() > 1 && name.starts_with(&typed) {
            true => 1.0,
            false => strsim::jaro(&typed, &name),
        }
    };
    let scored = names.into_iter().map(|name| (score(name), name));
    // The first of several equal scores wins.
    let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.filter(|(score, _)| *score > SIMILAR)
        .map(|(_, name)| name)
}

/// Returns the end of a clause about an unknown name: `; did you mean "build"?`, or `;` without a similar name.
pub(super) fn suggestion<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(typed, names) {
        Some(name) => format!("; did you mean {name:?}?"),
        None => ";".to_owned(),
    }
}

/// Returns a hint for an error about the typed name: `; did you mean "build"? there are: build, make`. `more`
/// names the command that prints the rest of a long list.
pub(super) fn hint<'a>(
    typed: &str,
    names: impl IntoIterator<Item = &'a str>,
    more: &str,
) -> String {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    if known.is_empty() {
        return "; there is none".to_owned();
    }
    let mut out = suggestion(typed, known.iter().copied());
    let meant = nearest(typed, known.iter().copied());
    // The suggested name must be in the list.
    if let Some(at) = known.iter().position(|name| Some(*name) == meant)
        && at >= LISTED
    {
        known.swap(0, at);
    }
    let listed = known.iter().take(LISTED).copied().collect::<Vec<_>>();
    // Writing to a string does not fail.
    let _ = write!(out, " there are: {}", listed.join(", "));
    if known.len() > LISTED {
        let _ = write!(out, " and {} more", known.len() - LISTED);
        if !more.is_empty() {
            let _ = write!(out, " ({more})");
        }
    }
    out
}

pub(super) fn parse_format(typed: &str) -> Result<Format, String> {
    typed.parse().map_err(|_| {
        let names = Format::ALL.iter().map(|format| format.name());
        format!("unknown output format{}", hint(typed, names, ""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likely_name_is_offered_and_others_are_listed() {
        let names = ["build", "agent", "make"];
        assert_eq!(nearest("biuld", names), Some("build"));
        assert_eq!(nearest("BUILD", names), Some("build"));
        assert_eq!(nearest("ag", names), Some("agent"));
        assert_eq!(nearest("xyz", names), None);
        assert_eq!(
            hint("biuld", names, ""),
            "; did you mean \"build\"? there are: build, agent, make"
        );
        assert_eq!(hint("xyz", names, ""), "; there are: build, agent, make");
        assert_eq!(hint("xyz", [], ""), "; there is none");
    }

    #[test]
    fn a_long_list_is_cut_and_has_the_likely_name() {
        let names: Vec<String> = (10..40).map(|number| format!("job-{number}")).collect();
        let hint = hint("job-39x", names.iter().map(String::as_str), "see runs");
        assert!(
            hint.contains("did you mean \"job-39\"? there are: job-39, "),
            "{hint}"
        );
        assert!(hint.ends_with("and 20 more (see runs)"), "{hint}");
    }
}

//! Patterns for the names of runs: `*` matches any text, `?` any character (pure).

/// Returns true if a name is a pattern.
pub(crate) fn is_glob(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Returns true if the whole name matches the pattern.
pub(crate) fn glob_matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // The positions after the last star and in the name, from which matching is retried.
    let mut star = None;
    loop {
        let (mut pattern_after, mut name_after) = (pattern.clone(), name.clone());
        let (wanted, found) = (pattern_after.next(), name_after.next());
        match (wanted, found) {
            (Some('*'), _) => star = Some((pattern_after.clone(), name.clone())),
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => name = name_after,
            _ => {
                // The star matches one more character.
                let Some((after_star, tried)) = &mut star else {
                    return false;
                };
                if tried.next().is_none() {
                    return false;
                }
                (pattern_after, name) = (after_star.clone(), tried.clone());
            }
        }
        pattern = pattern_after;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_and_question_marks_make_a_pattern() {
        for (pattern, name, is_match) in [
            ("agent-*", "agent-1", true),
            ("agent-*", "agent-", true),
            ("agent-*", "my-agent-1", false),
            ("*.+", "a.+", true),
            ("*.+", "a.b", false),
            ("job-?", "job-1", true),
            ("job-?", "job-10", false),
            ("*", "a\nb", true),
            ("*", "", true),
            ("?", "", false),
            ("*ab*ab", "abcabab", true),
        ] {
            assert_eq!(glob_matches(pattern, name), is_match, "{pattern} {name}");
        }
        assert!(!is_glob("build@17") && is_glob("build@1?"));
    }

    proptest! {
        #[test]
        fn a_pattern_matches_as_its_regex_does(pattern in "[ab*?]{0,8}", name in "[abü]{0,10}") {
            let regex: String = pattern
                .chars()
                .map(|c| match c {
                    '*' => ".*".to_owned(),
                    '?' => ".".to_owned(),
                    c => c.to_string(),
                })
                .collect();
            let regex = regex::Regex::new(&format!("^{regex}$")).unwrap();
            prop_assert_eq!(glob_matches(&pattern, &name), regex.is_match(&name));
        }
    }
}

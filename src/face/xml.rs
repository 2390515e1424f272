//! Writes text in XML 1.0: escapes it, and replaces characters that XML cannot represent (pure).

/// Appends text between tags.
pub(super) fn push_text(out: &mut String, text: &str) {
    push_escaped(out, text, false);
}

/// Appends an attribute, after a blank.
pub(super) fn push_attribute(out: &mut String, name: &str, value: &str) {
    out.push_str(&format!(" {name}=\""));
    push_escaped(out, value, true);
    out.push('"');
}

fn push_escaped(out: &mut String, text: &str, is_attribute: bool) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if is_attribute => out.push_str("&quot;"),
            // A parser would read a line feed, and in attributes blanks.
            '\r' => out.push_str("&#13;"),
            '\t' | '\n' if is_attribute => out.push_str(&format!("&#{};", u32::from(c))),
            c => out.push(valid(c)),
        }
    }
}

/// Returns the character, or the replacement character if XML 1.0 does not allow it.
fn valid(c: char) -> char {
    match c {
        '\t' | '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}' => c,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_attributes_are_escaped_and_have_no_invalid_character() {
        let (mut text, mut attribute) = (String::new(), String::new());
        let nasty = "a<b>&\"]]>\0\u{1b}\u{fffe}\t\n\ré";
        push_text(&mut text, nasty);
        push_attribute(&mut attribute, "name", nasty);
        assert_eq!(
            text,
            "a&lt;b&gt;&amp;\"]]&gt;\u{fffd}\u{fffd}\u{fffd}\t\n&#13;é"
        );
        assert_eq!(
            attribute,
            " name=\"a&lt;b&gt;&amp;&quot;]]&gt;\u{fffd}\u{fffd}\u{fffd}&#9;&#10;&#13;é\""
        );
    }
}

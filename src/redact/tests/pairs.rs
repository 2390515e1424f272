//! Pairs of a name and a value over two lines of a pane.

use super::panes::{open, settled};

#[test]
fn pairs_over_two_lines_are_redacted_as_in_a_stream() {
    for lines in [
        [
            "  <key>DB_PASSWORD</key>",
            "  <string>kT9vQ2mZx7Lw</string>",
        ],
        ["<name>client_secret</name>", "<value>kT9vQ2mZx7Lw</value>"],
        ["- name: DB_PASSWORD", "  value: kT9vQ2mZx7Lw"],
        [
            "    \"name\": \"DB_PASSWORD\",",
            "    \"value\": \"kT9vQ2mZx7Lw\"",
        ],
        ["mysql --password \\", "    kT9vQ2mZx7Lw db"],
        ["DB_PASSWORD:", "  value: kT9vQ2mZx7Lw"],
    ] {
        let mut redactor = open(80);
        let first = settled(&mut redactor, 1, &format!("{}\n", lines[0]));
        assert_eq!(first, format!("{}\n", lines[0]));
        let second = settled(&mut redactor, 2, &format!("{}\n", lines[1]));
        let expected = lines[1].replace("kT9vQ2mZx7Lw", "[redacted:password]");
        let expected = match lines[0].contains("client_secret") {
            true => expected.replace("password", "secret"),
            false => expected,
        };
        assert_eq!(second, format!("{expected}\n"));
    }
}

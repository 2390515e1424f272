//! Lines that rows print, gathered into messages: in order, bounded, and counted where they are left out (pure).

use std::collections::VecDeque;

use super::message::cut;

/// The longest line, in characters. The log has the whole line.
const LINE_CHARS_MAX: usize = 1000;

/// The messages that may wait, one every ten seconds: what is printed in a minute and a half. Of a flood, the rest is
/// counted.
const MESSAGES_MAX: usize = 8;

/// The least size of a message: it has room for a name, a line and a count.
const SIZE_MIN: usize = 160;

/// A part of what waits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Line {
        row: String,
        text: String,
    },
    LeftOut(u64),
    /// An unknown number of lines.
    Missed,
}

/// How long the messages of a channel may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub max: usize,
    /// Measures a text as the channel does: in characters, in bytes or in UTF-16 units.
    pub measure: fn(&str) -> usize,
}

/// The lines that wait for a channel.
#[derive(Debug)]
pub(super) struct OutputQueue {
    parts: VecDeque<Part>,
    /// The size of the parts.
    size: usize,
    /// The most that a message holds.
    message_size: usize,
    measure: fn(&str) -> usize,
}

impl OutputQueue {
    pub fn new(of_message: Size) -> Self {
        Self {
            parts: VecDeque::new(),
            size: 0,
            message_size: of_message.max.max(SIZE_MIN),
            measure: of_message.measure,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a line of a row, or counts it if too many wait.
    pub fn push(&mut self, row: &str, line: &str) {
        // A character measures at most four: the bytes of UTF-8.
        let text = cut(line.trim_end(), LINE_CHARS_MAX.min(self.message_size / 8));
        let size = (self.measure)(&text) + 1;
        if self.size + size > self.message_size * MESSAGES_MAX {
            self.leave_out(1);
            return;
        }
        self.size += size;
        let row = row.to_owned();
        self.parts.push_back(Part::Line { row, text });
    }

    /// Counts lines that are not known here.
    pub fn leave_out(&mut self, count: u64) {
        match self.parts.back_mut() {
            Some(Part::LeftOut(before)) => *before += count,
            _ => self.parts.push_back(Part::LeftOut(count)),
        }
    }

    /// Notes that lines were printed which nobody has counted.
    pub fn miss(&mut self) {
        if self.parts.back() != Some(&Part::Missed) {
            self.parts.push_back(Part::Missed);
        }
    }

    /// Takes the number of lines that wait, or have been left out.
    pub fn take_count(&mut self) -> u64 {
        self.size = 0;
        let counts = self.parts.drain(..).map(|part| match part {
            Part::Line { .. } => 1,
            Part::LeftOut(count) => count,
            Part::Missed => 0,
        });
        counts.sum()
    }

    /// Takes the next message. The lines of a row are below its name.
    pub fn take(&mut self) -> Option<String> {
        let mut message = String::new();
        let (mut size, mut row_before) = (0, None);
        while let Some(part) = self.parts.front() {
            let lines = match part {
                Part::Line { row, text } if row_before.as_ref() != Some(row) => {
                    format!("[{}]\n{text}", cut(row, self.message_size / 16))
                }
                Part::Line { text, .. } => text.clone(),
                Part::LeftOut(1) => "… 1 line left out".to_owned(),
                Part::LeftOut(count) => format!("… {count} lines left out"),
                Part::Missed => "… more lines left out".to_owned(),
            };
            let more = (self.measure)(&lines) + usize::from(size > 0);
            if size + more > self.message_size {
                break;
            }
            if size > 0 {
                message.push('\n');
            }
            message.push_str(&lines);
            size += more;
            if let Some(Part::Line { row, text }) = self.parts.pop_front() {
                self.size -= (self.measure)(&text) + 1;
                row_before = Some(row);
            }
        }
        (!message.is_empty()).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chars(text: &str) -> usize {
        text.chars().count()
    }

    fn messages(queue: &mut OutputQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn the_lines_of_a_row_are_below_its_name() {
        let mut queue = OutputQueue::new(Size {
            max: 4096,
            measure: chars,
        });
        for (row, line) in [("web", "a"), ("web", "b  "), ("api", "c"), ("web", "")] {
            queue.push(row, line);
        }
        assert_eq!(messages(&mut queue), ["[web]\na\nb\n[api]\nc\n[web]\n"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_flood_ends_with_a_count() {
        let mut queue = OutputQueue::new(Size {
            max: 1000,
            measure: chars,
        });
        for number in 0..100_000 {
            queue.push("web", &format!("line {number}"));
        }
        let messages = messages(&mut queue);
        assert!(messages.len() <= MESSAGES_MAX + 1, "{}", messages.len());
        let lines: Vec<&str> = messages.iter().flat_map(|it| it.lines()).collect();
        let told: Vec<&str> = lines
            .iter()
            .filter(|it| it.starts_with("line "))
            .copied()
            .collect();
        let expected: Vec<String> = (0..told.len()).map(|it| format!("line {it}")).collect();
        assert_eq!(told, expected);
        let rest = 100_000 - told.len();
        assert_eq!(
            lines.last().copied(),
            Some(&*format!("… {rest} lines left out"))
        );
    }

    proptest! {
        #[test]
        fn each_line_is_told_once_in_order_or_counted(
            lines in prop::collection::vec(("[ab]", "[a-zé漢 ]{0,300}"), 0..300),
            message_size in 200_usize..900,
            takes in prop::collection::vec(0_usize..60, 0..10),
        ) {
            let mut queue = OutputQueue::new(Size { max: message_size, measure: str::len });
            let mut told = Vec::new();
            for (at, (row, line)) in lines.iter().enumerate() {
                queue.push(row, &format!("{at}:{line}"));
                if takes.contains(&at) {
                    told.extend(queue.take());
                }
            }
            told.extend(messages(&mut queue));
            let mut next = 0;
            for message in &told {
                prop_assert!(message.len() <= message_size);
                for line in message.lines().filter(|line| !line.starts_with('[')) {
                    if let Some(count) = line.strip_prefix("… ") {
                        next += count.split(' ').next().unwrap().parse::<usize>().unwrap();
                    } else {
                        let number = line.split(':').next().unwrap();
                        prop_assert_eq!(number.parse::<usize>().unwrap(), next);
                        next += 1;
                    }
                }
            }
            prop_assert_eq!(next, lines.len());
            prop_assert_eq!(queue.size, 0);
        }
    }
}

//! Leads: the texts that announce secrets, compiled when they are needed (pure).

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::Regex;
use regex_syntax::hir::literal::Extractor;

/// Maximum length of a lead.
pub(super) const LEAD_MAX: usize = 192;
/// Maximum distance from the start of a lead to its keyword; as many bytes of clean text are kept.
pub(super) const BACK: usize = 80;

/// A lead, compiled when one of its keywords is first found: compiling all leads takes longer than a short
/// command.
#[derive(Debug)]
pub(super) struct WrittenLead {
    /// The lead as a regular expression.
    text: String,
    /// True if the lead begins with its keyword.
    start: bool,
    compiled: OnceLock<CompiledLead>,
}

#[derive(Debug)]
enum CompiledLead {
    /// One of these texts, longest first; each begins with a keyword. Most leads have this form, and
    /// comparing bytes is ten times as fast as a regular expression.
    Texts(Vec<Vec<u8>>),
    Pattern {
        regex: Regex,
        bytes_min: usize,
        bytes_max: usize,
    },
}

impl WrittenLead {
    pub(super) fn new(text: String, start: bool) -> Self {
        Self {
            text,
            start,
            compiled: OnceLock::new(),
        }
    }

    /// Creates a lead that is one of these texts, which are its keywords or begin them.
    pub(super) fn of_texts(texts: Vec<Vec<u8>>) -> Self {
        Self {
            text: String::new(),
            start: true,
            compiled: OnceLock::from(CompiledLead::texts(texts)),
        }
    }

    /// Compiles the lead now. Returns the minimum and the maximum number of its bytes, or the reason why the lead
    /// cannot be used.
    pub(super) fn compile(&self, keywords: &[String]) -> Result<(usize, usize), String> {
        if self.compiled.get().is_none() {
            let compiled = CompiledLead::read(&self.text, self.start, keywords)
                .map_err(|problem| format!("lead: {problem}"))?;
            // Another thread may have compiled the same lead meanwhile.
            let _ = self.compiled.set(compiled);
        }
        Ok(match self.compiled(keywords) {
            CompiledLead::Texts(texts) => {
                let lengths = || texts.iter().map(Vec::len);
                (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0))
            }
            CompiledLead::Pattern {
                bytes_min,
                bytes_max,
                ..
            } => (*bytes_min, *bytes_max),
        })
    }

    /// Returns the start and the end of the lead around a keyword, if any.
    pub(super) fn find(
        &self,
        keywords: &[String],
        text: &[u8],
        hit: &Range<usize>,
    ) -> Option<(usize, usize)> {
        match self.compiled(keywords) {
            CompiledLead::Texts(texts) => texts
                .iter()
                .find(|lead| text[hit.start..].starts_with(lead))
                .map(|lead| (hit.start, hit.start + lead.len())),
            CompiledLead::Pattern {
                regex, bytes_max, ..
            } => {
                let from = match self.start {
                    true => hit.start,
                    false => hit.start.saturating_sub(BACK),
                };
                let to = (hit.start + bytes_max).min(text.len());
                regex
                    .find_iter(&text[from..to.max(hit.end)])
                    .map(|found| (from + found.start(), from + found.end()))
                    .find(|&(start, end)| start <= hit.start && end > hit.start)
            }
        }
    }

    fn compiled(&self, keywords: &[String]) -> &CompiledLead {
        #[expect(
            clippy::expect_used,
            reason = "a test compiles the built-in leads, and others are compiled when they are read"
        )]
        self.compiled.get_or_init(|| {
            CompiledLead::read(&self.text, self.start, keywords).expect("the lead is valid")
        })
    }
}

impl CompiledLead {
    fn texts(mut texts: Vec<Vec<u8>>) -> Self {
        texts.sort_by_key(|text| Reverse(text.len()));
        Self::Texts(texts)
    }

    fn read(text: &str, start: bool, keywords: &[String]) -> Result<Self, String> {
        let hir = regex_syntax::parse(text).map_err(|error| error.to_string())?;
        let properties = hir.properties();
        let Some(bytes_max) = properties.maximum_len() else {
            return Err("its length is unlimited; write {0,8} instead of *".into());
        };
        if bytes_max > LEAD_MAX {
            return Err(format!("it may be longer than {LEAD_MAX} bytes"));
        }
        let texts = Extractor::new().extract(&hir);
        let begins = |text: &[u8]| {
            let mut words = keywords.iter().map(String::as_bytes);
            words.any(|word| text.starts_with(word) || word.starts_with(text))
        };
        if texts.is_exact()
            && let Some(texts) = texts.literals()
            && texts.iter().all(|text| begins(text.as_bytes()))
        {
            let texts = texts.iter().map(|text| text.as_bytes().to_vec());
            return Ok(Self::texts(texts.collect()));
        }
        let anchored = match start {
            true => format!("^(?:{text})"),
            false => text.to_owned(),
        };
        Ok(Self::Pattern {
            regex: Regex::new(&anchored).map_err(|error| error.to_string())?,
            bytes_min: properties.minimum_len().unwrap_or(0),
            bytes_max,
        })
    }
}

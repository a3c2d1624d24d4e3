//! Parts of a `.bif` file that are passed over.

use super::super::words::{Word, Words};
use crate::error::Result;

impl Words<'_> {
    /// Skips a property after its keyword: everything up to a `;`.
    pub(super) fn skip_property(&mut self) -> Result<()> {
        while self.expect("`;` after a property")? != Word::Mark(b';') {}
        Ok(())
    }

    /// Skips a block after its keyword: everything up to the closing `}`.
    pub(super) fn skip_block(&mut self) -> Result<()> {
        const STATEMENTS: [&str; 4] = ["property", "type", "table", "default"];
        let (mut depth, mut statement_starts) = (0usize, false);
        loop {
            let word = self.expect("`}`")?;
            if depth == 1 && statement_starts {
                if word.is("property") {
                    self.skip_property()?;
                    continue;
                }
                let known = STATEMENTS.iter().any(|keyword| word.is(keyword));
                // Without this check an unclosed block would be reported only at the end of the file.
                if !known && !matches!(word, Word::Mark(_)) {
                    return Err(self.unexpected(word, "a row, a property or `}`"));
                }
            }
            match word {
                Word::Mark(b'{') => depth += 1,
                Word::Mark(b'}') if depth <= 1 => return Ok(()),
                Word::Mark(b'}') => depth -= 1,
                _ => {}
            }
            statement_starts = matches!(word, Word::Mark(b'{' | b';'));
        }
    }
}

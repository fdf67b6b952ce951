//! Counts the uses of `unsafe` in each file.
use crate::command::Outcome;
use crate::tidy::source::Tree;
use crate::tidy::unsafety;

/// Prints each file that has any, and the sum.
pub(crate) fn run() -> Outcome {
    let tree = Tree::load()?;
    let mut sum = 0;
    for file in tree.rust() {
        let uses = unsafety::uses(file).len();
        if uses > 0 {
            println!("{uses:>5}  {}", file.path);
            sum += uses;
        }
    }
    println!("{sum:>5}  together");
    Ok(())
}

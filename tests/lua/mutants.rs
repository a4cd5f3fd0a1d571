//! Mistakes made on purpose in `lua/check.lua`.

use super::kill::Mistakes;
use super::play::Stage;

const MISTAKES: Mistakes<Stage, 1> = Mistakes {
    scripts: [("", include_str!("../../lua/check.lua"))],
    list: include_str!("mutants.json"),
    stage: |client, [check]| Stage::with(client, check),
    steps: 12_000,
    seed: 20,
};

#[test]
fn the_script_as_it_is_survives() {
    MISTAKES.scripts_survive();
}

#[test]
fn every_mistake_is_noticed() {
    MISTAKES.are_noticed();
}

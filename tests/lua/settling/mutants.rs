//! Mistakes made on purpose in `lua/settle.lua`.

use super::super::kill::Mistakes;
use super::play::Stage;

const MISTAKES: Mistakes<Stage, 1> = Mistakes {
    scripts: [("", include_str!("../../../lua/settle.lua"))],
    list: include_str!("../mutants_settling.json"),
    stage: |client, [settle]| Stage::with(client, settle),
    steps: 12_000,
    seed: 11,
};

#[test]
fn the_script_as_it_is_survives() {
    MISTAKES.scripts_survive();
}

#[test]
fn every_mistake_is_noticed() {
    MISTAKES.are_noticed();
}

"""The twin of worker.js: holds a slot as its standard input says, and tells of it."""

import json
import pathlib
import sys
import threading
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "clients" / "python"))

from sluicegate_slots import FenceGuard, LeaseLost, SlotRefused, Slots  # noqa: E402

asked = json.loads(sys.argv[1])
limit, subject, wait = asked["limit"], asked["subject"], asked["waitMs"] / 1000
slots = Slots(asked["url"], asked["token"])
slot = None
resume_thread = None
resume_error = None


def say(**event):
    # One write a line: threads speak here.
    sys.stdout.write(json.dumps({"at": int(time.time() * 1000), **event}) + "\n")
    sys.stdout.flush()


def watch(held):
    held.lost.wait()
    say(event="aborted")


def take():
    global slot
    slot = slots.take(limit, subject, wait)
    threading.Thread(target=watch, args=(slot,), daemon=True).start()
    return {"event": "held", "fence": slot.fence, "id": slot.id}


def check():
    slot.ensure_held()
    return {"event": "sure"}


def pause():
    slot.pause()
    return {"event": "paused"}


def resume():
    slot.resume(wait)
    return {"event": "held", "fence": slot.fence, "id": slot.id}


def resuming():
    global resume_thread

    def resume_it():
        global resume_error
        try:
            slot.resume(wait)
        except Exception as error:  # noqa: BLE001
            resume_error = error

    resume_thread = threading.Thread(target=resume_it, daemon=True)
    resume_thread.start()
    return {"event": "resuming"}


def resumed():
    resume_thread.join()
    if resume_error:
        raise resume_error
    return {"event": "held", "fence": slot.fence}


def free():
    slot.free()
    return {"event": "freed"}


def work():
    with slots.hold(limit, subject, wait) as held:
        urllib.request.urlopen(f"{sys.argv[2]}/in").read()
        fence = held.fence
        urllib.request.urlopen(f"{sys.argv[2]}/out").read()
    return {"event": "worked", "fence": fence}


def rest():
    with slots.hold(limit, subject) as held:
        before = held.fence
        with held.paused():
            urllib.request.urlopen(f"{sys.argv[2]}/in").read()
        held.ensure_held()
        return {"event": "rested", "fences": [before, held.fence]}


def fail():
    with slots.hold(limit, subject):
        raise ValueError("the work went wrong")


def guard():
    known = FenceGuard()
    return {"event": "guarded", "admitted": [known.admits(*asked) for asked in json.loads(sys.argv[3])]}


words = {
    word.__name__: word
    for word in (take, check, pause, resume, resuming, resumed, free, work, rest, fail, guard)
}
say(event="ready")
for line in sys.stdin:
    try:
        say(**words[line.strip()]())
    except LeaseLost as error:
        say(event="lost", message=str(error))
    except SlotRefused as error:
        say(event="refused", message=str(error))
    except Exception as error:  # noqa: BLE001
        say(event="failed", name=type(error).__name__, message=str(error))

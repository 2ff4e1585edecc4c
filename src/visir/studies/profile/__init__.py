"""What a model can do: every task that data is at hand for, each with chance and a reference model beside it.

- `skill.py`: what a row of a profile is called, and what a task gives
- `task.py`: what a task of a profile is
- `search_task.py`, `class_task.py`: the two kinds of tasks: searching and choosing; classifying
- `generated.py`: the tasks of generated scenes, a line each
- `at_hand.py`: known data sets under `VISIR_DATA`, a line each
- `own_data.py`: the tasks of any source that somebody gives
- `selection.py`: which tasks are asked for
- `profile.py`: the call; `result.py`: what it gives
"""

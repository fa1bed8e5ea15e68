# steps.py: how the clients in Python report; see README.md.
import json
import os

server = os.environ['RF_SERVER']
report = open(os.environ['RF_STEPS'], 'a', buffering=1)


def line(kind, name, text):
    report.write('%s\t%s\t%s\n' % (kind, name, ' '.join(text.split())))


def step(function):
    """Runs the function, a decorator's, and writes what it returned, or its error's SQLSTATE, under its name."""
    try:
        result = json.dumps(function(), default=str, sort_keys=True)
    except Exception as error:
        cause = getattr(error, 'orig', None) or error.__cause__ or error
        print(function.__name__, type(error), error)
        result = 'error %s' % (getattr(cause, 'pgcode', None) or type(error).__name__)
        if not function.__name__.startswith('refused_'):
            result += ': ' + str(error)
    line('step', function.__name__, result)
    return function


def own(name, sql):
    """Notes a statement that the step needs beside what the tool sends; with local tables there is none to send."""
    if server:
        line('sql', name, sql)
    return sql if server else 'SELECT 1'

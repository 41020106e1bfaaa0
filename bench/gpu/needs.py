"""What a benchmark cannot do without, asked for before anything else, so that its absence is one line."""
import importlib
import sys


def need(*modules):
    """Ends the program if one of the modules cannot be imported. `syncopate` comes before torch: it sets how many
    hardware queues CUDA has."""
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            where = {"syncopate": "build it (make wheel) or put the folder of the built package on PYTHONPATH"}
            sys.exit(f"this benchmark needs {name}, which cannot be imported ({error}): "
                     f"{where.get(name, f'python3 -m pip install {name}')}")

"""The comparison, from the command line to the report.

    cli -> preset -> bench -> servers, processes, protocol, machine
                  -> figures -> report, chart

A preset says what is measured; `bench` runs it on every side and keeps the
figures; nothing below `preset` knows which broker it talks to.
"""

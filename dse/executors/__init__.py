"""Where candidates are scored: threads of this process, or a pool of Ray actors.

Executors are handed fixed chunks and return their scores; they never see the study, its storage or
the sampler, so a study is the same whatever runs it.
"""

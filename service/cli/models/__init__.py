"""Commands for models: run, measure, compile, check and describe one."""

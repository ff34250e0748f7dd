cd /work/q/trace/apps
export NEURALD_AUTOSTART=0 OPENBLAS_NUM_THREADS=1 XDG_RUNTIME_DIR=/work/q/trace/run TMPDIR=/work/q/trace/tmp XDG_CACHE_HOME=/work/q/trace/cache
unset PYTHONDONTWRITEBYTECODE

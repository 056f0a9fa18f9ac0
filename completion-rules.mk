# SPDX-License-Identifier: BSD-3-Clause
# Included by a Makefile.am that sets `completed', the name of a program: what shells complete after
# it.  The shells look into these directories when it is completed for the first time.

bashcompletiondir = $(datadir)/bash-completion/completions
nodist_bashcompletion_DATA = completion/$(completed)
zshcompletiondir = $(datadir)/zsh/site-functions
nodist_zshcompletion_DATA = completion/_$(completed)
fishcompletiondir = $(datadir)/fish/vendor_completions.d
nodist_fishcompletion_DATA = completion/$(completed).fish

completion_sources = $(top_srcdir)/common/completion
completions = completion/$(completed) completion/_$(completed) completion/$(completed).fish
fill_in = $(AM_V_GEN)$(MKDIR_P) completion && sed 's|@program[@]|$(completed)|g'

completion/$(completed): $(completion_sources)/program.bash.in Makefile
	$(fill_in) $(completion_sources)/program.bash.in >$@.new && mv $@.new $@
completion/_$(completed): $(completion_sources)/program.zsh.in Makefile
	$(fill_in) $(completion_sources)/program.zsh.in >$@.new && mv $@.new $@
completion/$(completed).fish: $(completion_sources)/program.fish.in Makefile
	$(fill_in) $(completion_sources)/program.fish.in >$@.new && mv $@.new $@

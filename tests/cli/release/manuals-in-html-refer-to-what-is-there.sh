#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `make html' makes a page of each manual, which the index names with what the manual is about, and
# whose references lead to a place that is there. A reference to a section that no manual has fails
# the build; an item of the name of a section does not take its place.
. "$(dirname "$0")/../../lib/functions.sh"

man=$top_builddir/man
[ -e "$man/nbdloopd.8" ] || skip "the manuals are not built"
# Only what was built: old pages of another configuration may lie beside them.
pages=$(cd "$man" && ls nbd*.[1578])
cp "$man"/*.pod.full "$dir"
cd "$dir"

perl "$top_srcdir/man/make-html" html 1.2.3 $pages 2>err || fail "the manuals: $(cat err)"
for page in $pages; do
	[ -s "html/$page.html" ] || fail "no page for $page"
	about=$(sed -n "s/^${page%.*} - //p" "${page%.*}.pod.full")
	expect_equal "$page in the index" 1 "$(grep -cF "<dd>$about</dd>" html/index.html)"
done
expect_equal "pages" "$(wc -w <<<"$pages")" "$(($(find html -name '*.html' | wc -l) - 1))"
for target in $(grep -oh 'href="nbd[^"#]*' html/*.html | sed 's/href="//' | sort -u); do
	[ -e "html/$target" ] || fail "a reference to $target, which is not there"
done

# A page needs no file beside it.
grep -q '<img src="data:image/png;base64,iVBOR' html/nbdloopd-control.7.html || fail "the picture is not in its page"
! grep -q '<img src="[^d]' html/*.html || fail "a page refers to a picture"

# tiny PARAGRAPH: a manual with a section TLS after an item of that name
tiny()
{
	printf '%s\n\n' '=head1 NAME' 'tiny - has a title' "$1" '=over' '=item TLS' 'Text.' '=back' '=head1 TLS' 'Text.' >tiny.pod.full
	perl "$top_srcdir/man/make-html" tiny 1.2.3 tiny.1 2>err
}

tiny 'See L</TLS> and L<tiny(1)/TLS>.' || fail "a sound manual: $(cat err)"
expect_equal "the section's address" '<h1 id="TLS">TLS</h1>' "$(grep -F 'id="TLS"' tiny/tiny.1.html)"
tiny 'See L</Nowhere>.' && fail "a reference to a section that is not there was taken"
grep -F 'tiny.1 refers to #Nowhere, which is not there' err >/dev/null || fail "not explained: $(cat err)"
tiny 'See L<tiny(1)/Nowhere>.' && fail "a reference to a section of another manual that is not there was taken"
grep -F 'tiny.1 refers to tiny.1.html#Nowhere, which is not there' err >/dev/null || fail "not explained: $(cat err)"

"""The admin's editor for RPC URLs: a row for each; stored URLs are shown masked and kept until replaced."""

from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.crypto import salted_hmac
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from relayer_service.amounts import whole_number
from relayer_service.net.addresses import mask
from relayers.serializers.networks import MAX_URLS, MAX_WEIGHT, RpcUrlSerializer

GONE = "This URL was replaced or removed concurrently. Reload the page."

RpcUrl = dict[str, Any]


def names(rpc_urls: list[RpcUrl]) -> list[str]:
    """Return a name for each URL that identifies it without revealing it."""
    urls = [entry["url"] for entry in rpc_urls]
    texts = [f"{urls[: index + 1].count(url)} {url}" for index, url in enumerate(urls)]
    return [salted_hmac("relayers.rpc_urls", text, algorithm="sha256").hexdigest() for text in texts]


class RpcUrlRow(forms.Form):
    kept = forms.CharField(required=False, widget=forms.HiddenInput)
    url = forms.CharField(
        label="URL",
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    # With the value that the page showed, so that a concurrent change is not reverted.
    weight = forms.CharField(
        required=False,
        initial=str(MAX_WEIGHT),
        show_hidden_initial=True,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "numeric"}),
    )
    remove = forms.BooleanField(required=False, widget=UnfoldBooleanWidget)

    def __init__(self, *args: Any, masked: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.masked = masked.get(self["kept"].value() or "", "")
        self.is_kept = bool(self["kept"].value())
        placeholder = "Replace with another URL" if self.is_kept else "https://node.example.com/v1/key"
        self.fields["url"].widget.attrs |= {"placeholder": placeholder, "aria-label": placeholder}
        self.fields["weight"].widget.attrs["aria-label"] = "Weight"

    @property
    def is_edited(self) -> bool:
        changed = set(self.changed_data)
        return bool(changed & {"url", "weight", "remove"} if self.is_kept else "url" in changed)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("remove") or not (self.is_kept or cleaned.get("url")):
            return cleaned
        typed = {"weight": whole_number(cleaned["weight"])} | ({"url": cleaned["url"]} if cleaned["url"] else {})
        serializer = RpcUrlSerializer(data=typed, partial=True)
        if not serializer.is_valid():
            for name, faults in serializer.errors.items():
                self.add_error(name, [str(fault) for fault in faults])
        return {**cleaned, **serializer.validated_data}


class RpcUrlRowSet(forms.BaseFormSet):  # type: ignore[type-arg]  # Django cannot subscript it
    """Merges the edits of staff, who saw an earlier version, into the stored URLs."""

    def __init__(self, data: Any, rpc_urls: list[RpcUrl], prefix: str) -> None:
        self.stored = dict(zip(names(rpc_urls), rpc_urls, strict=True))
        super().__init__(
            data=data,
            prefix=prefix,
            initial=[{"kept": name, "weight": str(entry["weight"])} for name, entry in self.stored.items()],
            form_kwargs={"masked": {name: mask(entry["url"]) for name, entry in self.stored.items()}},
        )

    def clean(self) -> None:
        for row in self.forms:
            if row.is_kept and row.is_edited and row["kept"].value() not in self.stored:
                row.add_error("url", GONE)
        if not any(self.errors) and sum(1 for _ in self.merged()) > MAX_URLS:
            raise forms.ValidationError(f"at most {MAX_URLS} URLs are allowed")

    def merged(self) -> Iterator[tuple[RpcUrl, RpcUrlRow | None]]:
        """Yield the URLs to store, each with the row that it comes from."""
        rows = {row["kept"].value(): row for row in self.forms if row.is_kept}
        for name, entry in self.stored.items():
            row = rows.get(name)
            if row is None or not row.is_edited:
                yield entry, row
            elif not row.cleaned_data.get("remove"):
                weight = row.cleaned_data.get("weight") if "weight" in row.changed_data else entry["weight"]
                yield {"url": row.cleaned_data.get("url") or entry["url"], "weight": weight}, row
        for row in self.forms:
            if not row.is_kept and row.cleaned_data.get("url") and not row.cleaned_data.get("remove"):
                yield {"url": row.cleaned_data["url"], "weight": row.cleaned_data["weight"]}, row


RpcUrlRows: Any = forms.formset_factory(
    RpcUrlRow, formset=RpcUrlRowSet, extra=1, max_num=MAX_URLS, absolute_max=2 * MAX_URLS
)


class RpcUrlsWidget(forms.Widget):
    rows: RpcUrlRowSet
    input_type = "rows"

    class Media:
        js = ["relayers/admin.js"]

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        context = {"rows": self.rows, "id": (attrs or {}).get("id")}
        return render_to_string("admin/relayers/relayer/rpc_urls.html", context)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> None:
        return None


class RpcUrlRowsField(forms.Field):
    widget: RpcUrlsWidget = RpcUrlsWidget  # type: ignore[assignment]  # Django instantiates it
    rows: RpcUrlRowSet

    def clean(self, value: Any) -> None:
        if not self.rows.is_valid():
            raise forms.ValidationError([*self.rows.non_form_errors(), "Correct the marked rows."])

    def has_changed(self, initial: Any, data: Any) -> bool:
        return any(row.is_edited for row in self.rows.forms)

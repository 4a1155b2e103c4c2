from django.urls import re_path

from signers.viewsets import SignerListView

urlpatterns = [re_path(r"^signers/?$", SignerListView.as_view(), name="signer-list")]

"""Policies, models, tenants, health, the audit: what administrators read and set."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from api.declare import OPENING, declares
from api.deps import AccessDep, ClientsDep, MemoryDep, OperatorDep, act, require_operator
from api.schemas.admin import (
    Audit,
    Capabilities,
    Health,
    Models,
    NewPolicy,
    NewTenant,
    Policies,
    Tenant,
)
from api.schemas.page import Cursor, Limit, after, cursor
from api.writes import WriteDep
from memdb import AsyncMemory, calls, errors
from memdb.types import PolicyValue

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["administration"])


@router.get(
    "/policies",
    response_model=Policies,
    responses=declares(*OPENING, errors.NamespaceNotFound),
    summary="Read the policies in force",
)
async def policies(
    memory: MemoryDep, namespace: Annotated[str | None, Query(max_length=255)] = None
) -> object:
    """Return every policy with its value, what it means, and where it was set."""
    return {"policies": await memory.run(calls.effective_policy(memory.tenant_id, namespace))}


@router.put(
    "/policies/{key}",
    response_model=Policies,
    responses=declares(*OPENING, errors.NamespaceNotFound, errors.KeyReused, has_body=True),
    dependencies=[Depends(require_operator)],
    summary="Set a policy",
)
async def set_policy(
    key: Annotated[str, Path(max_length=200)], policy: NewPolicy, write: WriteDep, memory: MemoryDep
) -> Response:
    """Set a policy for a tenant or one of its namespaces; operators only."""
    call = calls.set_policy(memory.tenant_id, key, policy.value, policy.namespace)
    found = calls.effective_policy(memory.tenant_id, policy.namespace)

    async def set_and_read(under: AsyncMemory) -> Sequence[PolicyValue]:
        await under.run(call)
        return [value for value in await under.run(found) if value.key == key]

    return await write.run(set_and_read, lambda rows: {"policies": rows}, Policies)


@router.get("/models", response_model=Models, responses=declares(*OPENING), summary="List encoders")
async def models(memory: MemoryDep) -> object:
    """Return the encoders whose vectors the tenant keeps."""
    return {"models": await memory.run(calls.list_embedding_models(memory.tenant_id))}


@router.get(
    "/health",
    response_model=Health,
    responses=declares(*OPENING),
    summary="Look how the tenant is",
)
async def health(memory: MemoryDep) -> object:
    """Return measured values, whether each is well, and what to do if not."""
    return {"metrics": await memory.health()}


@router.post(
    "/tenants",
    response_model=Tenant,
    status_code=201,
    responses={
        200: {"model": Tenant, "description": "It was there already."},
        **declares(*OPENING, has_body=True),
    },
    summary="Make a tenant",
)
async def create_tenant(
    tenant: NewTenant, access: OperatorDep, clients: ClientsDep, response: Response
) -> object:
    """Make a tenant, or find the one of that name; operators only."""
    memory = await act(clients, access, None)
    made = (await memory.run(calls.create_tenant(tenant.name)))[0]
    if not made.is_new:
        response.status_code = 200
    return {"tenant_id": made.tenant_id, "name": tenant.name, "is_new": made.is_new}


@router.get(
    "/audit",
    response_model=Audit,
    responses=declares(*OPENING),
    dependencies=[Depends(require_operator)],
    summary="Read the audit",
)
async def audit(memory: MemoryDep, page: Cursor = None, limit: Limit = 50) -> object:
    """Return what was written through the service, newest first; operators only."""
    found = await memory.run(calls.list_audit(memory.tenant_id, after(page), limit))
    last = found[-1].audit_id if found else None
    return {"entries": found, "next": cursor(last, len(found), limit)}


@router.get(
    "/capabilities",
    response_model=Capabilities,
    responses=declares(*OPENING),
    summary="What can be done here?",
)
async def capabilities(memory: MemoryDep, access: AccessDep, request: Request) -> object:
    """Return what the service can do for this tenant, and what the key may."""
    key = access.key
    return {
        "version": version("memdb-postgres"),
        "tenant_id": memory.tenant_id,
        "encoder": memory.encoder.name if memory.encoder else None,
        "dimensions": memory.encoder.dimensions if memory.encoder else None,
        "reranker": memory.reranker.name if memory.reranker else None,
        "role": key.role if key else "open",
        "namespaces": key.namespaces if key else None,
        "agents": key.agents if key else None,
        "max_body_bytes": request.app.state.max_body_bytes,
        "rate_limit": request.app.state.limit.rate or None,
    }
